// Streams over TLS: how a host gets its certificate, and which clients are accepted without one.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "openssl/bio.h"
#include "openssl/ssl.h"
#include "paceline/model/problem.h"
#include "paceline/wire/client/control_client.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/fetch_authority.h"
#include "paceline/wire/server/stream_fixture.h"
#include "paceline/wire/speech.h"

namespace paceline::wire {
namespace {

// A TCP socket instead of a master.
class SilentListener {
 public:
  explicit SilentListener(const std::string& address) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
    if (bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0) listen(fd_, 8);
  }
  ~SilentListener() { close(fd_); }
  bool AcceptAndClose() const {
    pollfd wait = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, 30'000) != 1) return false;
    const int accepted = accept(fd_, nullptr, nullptr);
    return accepted >= 0 && close(accepted) == 0;
  }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

class TlsStreams : public StreamTest {
 protected:
  void SetUp() override {
    server_credentials_ = *MakeServerCredentials("job", token_);
    Serve();
    join_ = {.address = address_,
             .ca_sha256 = *CaFingerprint(server_credentials_.ca_pem),
             .token = token_};
  }
  JoinString join_;
};

TEST_F(TlsStreams, AHostEnrollsAndAttaches) {
  const auto credentials = Enroll(join_, {"host1"}, kAnswerPatience);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard, *credentials);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
  ASSERT_TRUE(agent->Send(Register{TestReport("host1")}));
  EXPECT_TRUE(heard_.Next<AgentSaid>());
}

TEST_F(TlsStreams, AnotherAuthorityGetsNoSecret) {
  JoinString wrong = join_;
  wrong.ca_sha256 = std::string(64, '0');
  EXPECT_EQ(Enroll(wrong, {"host1"}, kAnswerPatience).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(TlsStreams, AWrongTokenGetsNoCertificate) {
  JoinString wrong = join_;
  wrong.token = MakeToken();
  EXPECT_EQ(Enroll(wrong, {"host1"}, kAnswerPatience).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Enroll(join_, {"../host"}, kAnswerPatience).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsStreams, WithoutACertificateOfThisJobNobodyAttaches) {
  const auto other_job = *MakeServerCredentials("other", token_);
  Credentials stranger = *MakeClientCredentials(other_job, {"host1"});
  stranger.ca_pem = server_credentials_.ca_pem;
  const Credentials bare{.token = token_, .ca_pem = server_credentials_.ca_pem};
  const Credentials plain{.token = token_};
  for (const Credentials& credentials : {stranger, bare, plain}) {
    Heard<AgentStreamEvent> agent_heard;
    const auto agent = Agent(&agent_heard, credentials);
    EXPECT_TRUE(agent_heard.Next<StreamBroken>());
    ControlClient client(
        {.address = address_, .credentials = credentials, .timeout = Duration::Seconds(1)});
    EXPECT_FALSE(client.GetStatus().ok());
  }
}

TEST_F(TlsStreams, NobodyThereIsUnavailable) {
  server_.reset();
  EXPECT_EQ(Enroll(join_, {"host1"}, Duration::Seconds(1)).status().code(),
            absl::StatusCode::kUnavailable);
}

// A host requests its certificate while no process listens, then while a stranger accepts without
// an answer, and then the master starts: one call survives all of it.
TEST_F(TlsStreams, AClockThatIsBehindTheCertificateIsNamed) {
  const std::time_t now = std::time(nullptr);
  EXPECT_EQ(WhyNotYet(server_credentials_.ca_pem, now), "");
  const std::string why = WhyNotYet(server_credentials_.ca_pem, now - 3 * 24 * 3600);
  EXPECT_TRUE(why.starts_with("the job's certificate is valid from 20")) << why;
  EXPECT_NE(why.find("set the clock of this host"), std::string::npos) << why;
  EXPECT_EQ(WhyNotYet("no certificate", now), "");
}

TEST_F(TlsStreams, AHostThatAsksBeforeTheMasterListensEnrolls) {
  server_.reset();
  absl::StatusOr<Credentials> credentials = absl::UnknownError("not yet");
  std::atomic<bool> is_done = false;
  std::thread host([&] {
    credentials = Enroll(join_, {"host1"}, kAnswerPatience);
    is_done = true;
  });
  {
    // Closes each connection at once, as an ending master does. Two of them prove the retry.
    SilentListener stranger(address_);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(stranger.AcceptAndClose());
  }
  EXPECT_FALSE(is_done);
  Serve();
  host.join();
  EXPECT_TRUE(credentials.ok()) << credentials.status();
}

TEST_F(StreamTest, AMasterWithoutTlsIsNoMysteryToAHostThatWantsTls) {
  Serve();
  const JoinString join{.address = address_, .ca_sha256 = std::string(64, 'a'), .token = token_};
  const absl::Status status = Enroll(join, {"host1"}, kAnswerPatience).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("does not speak TLS"), std::string::npos) << status;
}

// Otherwise both would wait for their whole timeout: to gRPC this looks like a starting master.
TEST_F(TlsStreams, WhoAsksWithoutTlsHearsThatTheMasterSpeaksIt) {
  ControlClient client(
      {.address = address_, .credentials = {.token = token_}, .timeout = kAnswerPatience});
  const absl::Status status = client.GetStatus().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  const auto problem = ProblemOf(status);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code, "PL-E105");
  EXPECT_EQ(problem->where, address_);
  EXPECT_NE(problem->why.find("--tls"), std::string::npos);
  EXPECT_NE(problem->fix.find("--join"), std::string::npos);
  EXPECT_EQ(client.Stop({}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StreamTest, WhoAsksWithTlsHearsThatTheMasterDoesNotSpeakIt) {
  Serve();
  const auto other = *MakeServerCredentials("other", token_);
  ControlClient client({.address = address_,
                        .credentials = *MakeClientCredentials(other, {"host1"}),
                        .timeout = kAnswerPatience});
  const absl::Status status = client.GetStatus().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  const auto problem = ProblemOf(status);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->code, "PL-E105");
  EXPECT_NE(problem->fix.find("--tls"), std::string::npos);
}

TEST_F(TlsStreams, AMasterThatIsAwayIsTakenForNeither) {
  server_.reset();
  for (const Credentials& credentials :
       {Credentials{.token = token_}, *MakeClientCredentials(server_credentials_, {"host1"})}) {
    ControlClient client(
        {.address = address_, .credentials = credentials, .timeout = Duration::Seconds(1)});
    EXPECT_EQ(client.GetStatus().status().code(), absl::StatusCode::kUnavailable);
  }
  const SilentListener stranger(address_);
  EXPECT_EQ(SpeechOf(address_, Duration::Milliseconds(100)), Speech::kUnknown);
}

TEST_F(TlsStreams, OnlyTheNodesOfItsCertificateMayBeRegistered) {
  const auto credentials = Enroll(join_, {"host1-0", "host1-1"}, kAnswerPatience);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  for (const std::string name : {"host1-0", "host1-1", "host2", "host1", "host1-"}) {
    Heard<AgentStreamEvent> agent_heard;
    const auto agent = Agent(&agent_heard, *credentials);
    ASSERT_TRUE(agent_heard.Next<StreamOpened>());
    ASSERT_TRUE(agent->Send(Register{TestReport(name)}));
    if (name == "host1-0" || name == "host1-1") {
      const auto said = heard_.Next<AgentSaid>();
      ASSERT_TRUE(said);
      EXPECT_EQ(std::get<Register>(said->message).report.name, name);
      continue;
    }
    agent->Send(Heartbeat{});  // later messages do not displace the refusal
    const auto refusal = agent_heard.Next<Refusal>();
    ASSERT_TRUE(refusal) << name;
    EXPECT_EQ(refusal->code, "PL-E106");
    EXPECT_FALSE(refusal->what.empty() || refusal->why.empty() || refusal->fix.empty());
    EXPECT_FALSE(refusal->retry);
  }
}

// The TLS version on which OpenSSL's own client and the server agree.
std::string VersionAgreedOn(const std::string& address, int version_max) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), version_max);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_ssl_connect(context.get()),
                                                          &BIO_free_all);
  BIO_set_conn_hostname(bio.get(), address.c_str());
  SSL* ssl = nullptr;
  BIO_get_ssl(bio.get(), &ssl);
  const unsigned char alpn[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl, alpn, sizeof(alpn));
  return BIO_do_handshake(bio.get()) == 1 ? SSL_get_version(ssl) : "none";
}

TEST_F(TlsStreams, NothingBelowTls13IsSpoken) {
  EXPECT_EQ(VersionAgreedOn(address_, TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(VersionAgreedOn(address_, TLS1_2_VERSION), "none");
  EXPECT_EQ(VersionAgreedOn(address_, TLS1_1_VERSION), "none");
}

}  // namespace
}  // namespace paceline::wire
