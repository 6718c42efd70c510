// Real relays between real servers and clients, over loopback.

#include "paceline/wire/server/relay.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/wire/client/control_client.h"
#include "paceline/wire/client/route.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/stream_fixture.h"

namespace paceline::wire {
namespace {

class RelayTest : public StreamTest {
 protected:
  std::unique_ptr<Relay> MakeRelay(RelayOptions options) {
    options.listen = options.listen.empty() ? "127.0.0.1:0" : options.listen;
    options.master = address_;
    if (options.credentials.token.empty()) options.credentials = client_credentials_;
    auto relay = Relay::Start(std::move(options));
    EXPECT_TRUE(relay.ok()) << relay.status();
    return relay.ok() ? *std::move(relay) : nullptr;
  }
  static std::string AddressOf(const Relay& relay) {
    return "127.0.0.1:" + std::to_string(relay.port());
  }
  // An agent that knows its relays, and whose master's address is `master`.
  std::unique_ptr<AgentStream> AgentBehind(const std::vector<std::string>& relays,
                                           Heard<AgentStreamEvent>* heard,
                                           const std::string& master) {
    return std::make_unique<AgentStream>(
        AgentStreamOptions{.address = master,
                           .relays = relays,
                           .who = "node0",
                           .credentials = client_credentials_},
        [heard](AgentStreamEvent event) { heard->Post(std::move(event)); });
  }
  static constexpr char kNowhere[] = "127.0.0.1:1";
};

TEST_F(RelayTest, PassesAStreamOnBothWays) {
  Serve();
  const auto relay = MakeRelay({});
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({AddressOf(*relay)}, &agent_heard, kNowhere);
  const auto said = RegisterOnce(agent.get(), &agent_heard);
  ASSERT_TRUE(said);
  EXPECT_EQ(std::get<Register>(said->message).report, TestReport("node0"));
  for (uint32_t i = 1; i <= 100; ++i) {
    server_->Send(said->connection, Assignment{.generation = Generation(i)});
    EXPECT_EQ(agent_heard.Next<Assignment>()->generation, Generation(i));
    ASSERT_TRUE(agent->Send(Heartbeat{.store_port = i}));
    EXPECT_EQ(std::get<Heartbeat>(heard_.Next<AgentSaid>()->message).store_port, i);
  }
  server_->Close(said->connection, "fenced");
  EXPECT_EQ(agent_heard.Next<StreamBroken>()->why, "fenced") << "the master's own words";
  ASSERT_TRUE(agent_heard.Next<StreamOpened>()) << "and over the same relay again";
}

TEST_F(RelayTest, BoundsConnectionsWithoutATokenToo) {
  Serve();
  const auto relay = MakeRelay({.unproven_per_peer_max = 1});
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({AddressOf(*relay)}, &agent_heard, kNowhere);
  ASSERT_TRUE(agent_heard.Next<StreamOpened>());
  const MuteConnection first(AddressOf(*relay));
  const MuteConnection second(AddressOf(*relay));
  EXPECT_TRUE(first.IsClosedWithin(kDeadline));
  ASSERT_TRUE(agent->Send(Register{TestReport("node0")}));
  EXPECT_TRUE(heard_.Next<AgentSaid>()) << "whoever has shown the token stays";
}

TEST_F(RelayTest, TheMasterHearsOfAnAgentThatIsGone) {
  Serve();
  const auto relay = MakeRelay({});
  Heard<AgentStreamEvent> agent_heard;
  auto agent = AgentBehind({AddressOf(*relay)}, &agent_heard, kNowhere);
  const auto said = RegisterOnce(agent.get(), &agent_heard);
  ASSERT_TRUE(said);
  agent.reset();
  EXPECT_EQ(heard_.Next<AgentDisconnected>()->connection, said->connection);
}

TEST_F(RelayTest, CallsAndLaunchersGoOverItToo) {
  Serve();
  const auto relay = MakeRelay({});
  ControlClient client({.address = AddressOf(*relay),
                        .credentials = client_credentials_,
                        .timeout = kAnswerPatience});
  std::thread master([&] {
    if (const auto asked = heard_.Next<StatusAsked>()) asked->reply({.job_id = "j"});
  });
  const auto status = client.GetStatus();
  master.join();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->job_id, "j");

  Heard<SupervisorEvent> launcher_heard;
  SupervisorStream launcher(
      {.address = kNowhere, .credentials = client_credentials_},
      [&](SupervisorEvent event) { launcher_heard.Post(std::move(event)); }, {AddressOf(*relay)},
      "node0");
  const auto attached = heard_.Next<SupervisorAttached>();
  ASSERT_TRUE(attached);
  server_->Order(attached->supervisor, JobEnded{.exit_code = 3});
  EXPECT_EQ(launcher_heard.Next<JobEnded>()->exit_code, 3);
}

TEST_F(RelayTest, AStrangerGetsNoFurther) {
  Serve();
  const auto relay = MakeRelay({});
  ControlClient client({.address = AddressOf(*relay),
                        .credentials = {.token = MakeToken()},
                        .timeout = kAnswerPatience});
  EXPECT_EQ(client.GetStatus().status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(RelayTest, WhenItsRelayDiesAnAgentTakesAnother) {
  Serve();
  std::unique_ptr<Relay> relays[2] = {MakeRelay({}), MakeRelay({})};
  const std::vector<std::string> addresses = {AddressOf(*relays[0]), AddressOf(*relays[1])};
  const size_t first = Route(kNowhere, addresses, "node0").address() == addresses[0] ? 0 : 1;
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind(addresses, &agent_heard, kNowhere);
  ASSERT_TRUE(RegisterOnce(agent.get(), &agent_heard));
  relays[first].reset();
  ASSERT_TRUE(agent_heard.Next<StreamBroken>());
  ASSERT_TRUE(RegisterOnce(agent.get(), &agent_heard));
}

TEST_F(RelayTest, WithoutAnyRelayAnAgentFindsTheMaster) {
  Serve();
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({kNowhere}, &agent_heard, address_);
  EXPECT_TRUE(RegisterOnce(agent.get(), &agent_heard));
}

TEST_F(RelayTest, ARelayThatIsFullSendsItsCallersElsewhere) {
  Serve();
  const auto full = MakeRelay({.calls_max = 0});
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({AddressOf(*full)}, &agent_heard, address_);
  EXPECT_TRUE(RegisterUntilHeard(agent.get(), &agent_heard));
}

TEST_F(RelayTest, AgentsStayWithTheirRelayWhileTheMasterIsAway) {
  Serve();
  const auto relay = MakeRelay({});
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({AddressOf(*relay)}, &agent_heard, kNowhere);
  RegisterWithEachMaster(agent.get(), &agent_heard);
}

// The relay's own link to the master is broken. Its callers get an error at once.
TEST_F(RelayTest, ARelayWithoutAMasterGivesItsCallersBack) {
  Serve();
  const std::string real = address_;
  address_ = kNowhere;
  const auto lost = MakeRelay({});
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({AddressOf(*lost)}, &agent_heard, real);
  // An attempt that takes too long to connect to the relay breaks, too, and another one follows.
  bool is_given_back = false;
  for (size_t i = 0; i < Route::kRounds && !is_given_back; ++i) {
    const auto broken = agent_heard.Next<StreamBroken>();
    ASSERT_TRUE(broken);
    is_given_back = broken->why == "the relay does not reach the master";
  }
  EXPECT_TRUE(is_given_back);
  EXPECT_TRUE(RegisterOnce(agent.get(), &agent_heard));
}

TEST_F(RelayTest, StaysForCallersThatComeBackUntilTheMasterHasGone) {
  Serve();
  const auto relay = MakeRelay({});
  std::atomic<bool> has_gone = false;
  std::thread leaver([&] {
    relay->WaitUntilMasterHasGone();
    has_gone = true;
  });
  Heard<AgentStreamEvent> agent_heard;
  // No call is open before the first agent, and between the two.
  for (int i = 0; i < 2; ++i) {
    auto agent = AgentBehind({AddressOf(*relay)}, &agent_heard, kNowhere);
    EXPECT_TRUE(RegisterOnce(agent.get(), &agent_heard));
    EXPECT_FALSE(has_gone);
  }
  server_.reset();
  leaver.join();
}

TEST_F(RelayTest, ATakenPortIsAnError) {
  Serve();
  const auto relay =
      Relay::Start({.listen = address_, .master = address_, .credentials = client_credentials_});
  EXPECT_EQ(relay.status().code(), absl::StatusCode::kAlreadyExists);
}

class TlsRelayTest : public RelayTest {
 protected:
  void SetUp() override {
    server_credentials_ = *MakeServerCredentials("job", token_);
    has_relays_ = true;
    Serve();
    join_ = {.address = address_,
             .ca_sha256 = *CaFingerprint(server_credentials_.ca_pem),
             .token = token_};
  }
  Credentials Enrolled(const std::string& node, const std::string& address, bool is_relay = false) {
    JoinString join = join_;
    join.address = address;
    auto credentials = Enroll(join, {node}, kAnswerPatience, is_relay);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.ok() ? *std::move(credentials) : Credentials{};
  }
  JoinString join_;
};

TEST_F(TlsRelayTest, AHostEnrollsAndAttachesOverARelay) {
  const auto relay = MakeRelay({.credentials = Enrolled("host1", address_, /*is_relay=*/true)});
  client_credentials_ = Enrolled("host2", AddressOf(*relay));
  for (const std::string name : {"host2", "host1", "host3"}) {
    Heard<AgentStreamEvent> agent_heard;
    const auto agent = AgentBehind({AddressOf(*relay)}, &agent_heard, kNowhere);
    ASSERT_TRUE(agent_heard.Next<StreamOpened>());
    ASSERT_TRUE(agent->Send(Register{TestReport(name)}));
    if (name == "host2") {
      EXPECT_TRUE(heard_.Next<AgentSaid>());
    } else {
      const auto refusal = agent_heard.Next<Refusal>();
      ASSERT_TRUE(refusal) << "a relay lends nobody its own name, nor any other";
      EXPECT_EQ(refusal->code, "PL-E106");
    }
  }
}

TEST_F(TlsRelayTest, AHostWithoutACertificateDoesNotPass) {
  const auto relay = MakeRelay({.credentials = Enrolled("host1", address_, /*is_relay=*/true)});
  ControlClient bare({.address = AddressOf(*relay),
                      .credentials = {.token = token_, .ca_pem = server_credentials_.ca_pem},
                      .timeout = kAnswerPatience});
  EXPECT_EQ(bare.GetStatus().status().code(), absl::StatusCode::kUnauthenticated);
}

// A host without a relay's certificate cannot serve (clients expect the job's server name), and its
// header with other nodes is ignored.
TEST_F(TlsRelayTest, AnOrdinaryHostIsNoRelay) {
  const auto fake = MakeRelay({.credentials = Enrolled("host1", address_)});
  client_credentials_ = Enrolled("host2", address_);
  Heard<AgentStreamEvent> agent_heard;
  const auto agent = AgentBehind({AddressOf(*fake)}, &agent_heard, kNowhere);
  EXPECT_TRUE(agent_heard.Next<StreamBroken>());
}

TEST_F(TlsRelayTest, AJobWithoutRelaysMakesNone) {
  server_.reset();
  has_relays_ = false;
  Serve();
  EXPECT_EQ(Enroll(join_, {"host1"}, kAnswerPatience, /*is_relay=*/true).status().code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace paceline::wire
