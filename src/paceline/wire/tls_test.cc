// Streams over TLS: how a host gets its certificate, and who is let in without one.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "paceline/wire/control_client.h"
#include "paceline/wire/credentials.h"
#include "paceline/wire/stream_fixture.h"

namespace paceline::wire {
namespace {

// A TCP socket in the place of a master.
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
  const auto credentials = Enroll(join_, "host1", Duration::Seconds(10));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = Agent(&agent_heard, *credentials);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
  ASSERT_TRUE(agent->Send(Register{Report("host1")}));
  EXPECT_TRUE(heard_.Next<AgentSaid>());
}

TEST_F(TlsStreams, AnotherAuthorityGetsNoSecret) {
  JoinString wrong = join_;
  wrong.ca_sha256 = std::string(64, '0');
  EXPECT_EQ(Enroll(wrong, "host1", Duration::Seconds(10)).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(TlsStreams, AWrongTokenGetsNoCertificate) {
  JoinString wrong = join_;
  wrong.token = MakeToken();
  EXPECT_EQ(Enroll(wrong, "host1", Duration::Seconds(10)).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Enroll(join_, "../host", Duration::Seconds(10)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsStreams, WithoutACertificateOfThisJobNobodyAttaches) {
  const auto other_job = *MakeServerCredentials("other", token_);
  Credentials stranger = *MakeClientCredentials(other_job, "host1");
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
  EXPECT_EQ(Enroll(join_, "host1", Duration::Seconds(1)).status().code(),
            absl::StatusCode::kUnavailable);
}

// A host asks for its certificate before anybody listens, while a stranger answers without a word,
// and after the master came: one call gets through all of it.
TEST_F(TlsStreams, AHostThatAsksBeforeTheMasterListensEnrolls) {
  server_.reset();
  absl::StatusOr<Credentials> credentials = absl::UnknownError("not yet");
  std::atomic<bool> is_done = false;
  std::thread host([&] {
    credentials = Enroll(join_, "host1", Duration::Seconds(30));
    is_done = true;
  });
  {
    // Closes each connection at once, as a master that ends does. Two of them prove the retry.
    SilentListener stranger(address_);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(stranger.AcceptAndClose());
  }
  EXPECT_FALSE(is_done);
  Serve(address_);
  host.join();
  EXPECT_TRUE(credentials.ok()) << credentials.status();
}

TEST_F(StreamTest, AMasterWithoutTlsIsNoMysteryToAHostThatWantsTls) {
  Serve();
  const JoinString join{.address = address_, .ca_sha256 = std::string(64, 'a'), .token = token_};
  const absl::Status status = Enroll(join, "host1", Duration::Seconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("does not speak TLS"), std::string::npos) << status;
}

}  // namespace
}  // namespace paceline::wire
