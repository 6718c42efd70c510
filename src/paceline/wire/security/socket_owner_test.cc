// A user without rights listens on the port of a master that died.

#include "paceline/wire/security/socket_owner.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/status_macros.h"
#include "paceline/model/problem.h"
#include "paceline/wire/server/relay.h"
#include "paceline/wire/server/stream_fixture.h"

namespace paceline::wire {
namespace {

constexpr uid_t kStranger = 12345;

// A listening socket of that user, and what comes in on it. The kernel gives a socket the user of
// the thread that makes it.
class StrangersPort {
 public:
  // With `port` of IPv4 loopback. Without `accepts`, connections wait in the kernel's queue.
  StrangersPort(uint16_t port, bool accepts, uid_t user = kStranger, int family = AF_INET)
      : accepts_(accepts), thread_([this, port, user, family] { Run(port, user, family); }) {
    while (port_ == 0) std::this_thread::yield();
  }
  ~StrangersPort() { Stop(); }
  void Stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  const std::string& heard() const { return heard_; }  // after Stop
  size_t connections() const { return connections_; }

 private:
  void Run(uint16_t port, uid_t user, int family) {
    setfsuid(user);
    const Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_storage own{};
    auto& own4 = reinterpret_cast<sockaddr_in&>(own);
    own.ss_family = static_cast<sa_family_t>(family);
    own4.sin_port = htons(port);  // the same place as in IPv6
    if (family == AF_INET) own4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(listen(fd.get(), 64), 0);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own4.sin_port);
    std::vector<Fd> open;
    std::array<char, 4096> bytes;
    bool is_last = false;
    while (!is_last) {
      is_last = is_over_;  // so whatever came before the end is read
      if (!accepts_ && !is_last) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      Fd next(accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (next.is_open()) {
        open.push_back(std::move(next));
        ++connections_;
        is_last = false;
      }
      for (const Fd& one : open) {
        const ssize_t got = recv(one.get(), bytes.data(), bytes.size(), 0);
        if (got > 0) heard_.append(bytes.data(), static_cast<size_t>(got));
      }
    }
  }

  const bool accepts_;
  std::atomic<bool> is_over_ = false;
  std::atomic<int> port_ = 0;
  std::atomic<size_t> connections_ = 0;
  std::string heard_;
  std::thread thread_;  // last
};

class SocketOwnerTest : public StreamTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "NOT TESTED: only root can listen as another user";
    }
  }
  static Fd Connected(const std::string& address) {
    auto fd = DialTcp(address, std::chrono::steady_clock::now() + kDeadline);
    EXPECT_TRUE(fd.ok()) << fd.status();
    return *std::move(fd);
  }
  uint16_t HeldNumber() const {
    const std::string& address = port_.address();
    return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
};

TEST_F(SocketOwnerTest, TheKernelTellsBeforeAndAfterAProcessAccepts) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const uid_t user : {uid_t{0}, kStranger}) {
      for (const bool accepts : {false, true}) {
        StrangersPort port(0, accepts, user, family);
        const Fd fd = Connected(port.address());
        while (accepts && port.connections() == 0) std::this_thread::yield();
        EXPECT_EQ(ReadTablesForPeer(fd.get()).owner, user) << family << accepts;
        const SocketLists asked = AskKernelForPeer(fd.get());
        if (asked.is_readable) {
          EXPECT_EQ(asked.owner, user) << family << accepts;
        }
        EXPECT_EQ(CheckPeerIsOurs(fd.get(), "there").ok(), user == 0);
      }
    }
  }
}

TEST_F(SocketOwnerTest, AnAgentSendsAStrangerNoToken) {
  for (const bool accepts : {false, true}) {
    StrangersPort thief(HeldNumber(), accepts);
    address_ = thief.address();
    Heard<AgentStreamEvent> agent_heard;
    const auto agent = Agent(&agent_heard);
    const auto broken = agent_heard.Next<StreamBroken>();
    ASSERT_TRUE(broken);
    EXPECT_NE(broken->why.find("PL-E107"), std::string::npos) << broken->why;
    EXPECT_NE(broken->why.find("user id 12345"), std::string::npos) << broken->why;
    EXPECT_FALSE(broken->is_denied) << "its master may come back";
    ASSERT_TRUE(agent_heard.Next<StreamBroken>());
    thief.Stop();
    EXPECT_GT(thief.connections(), 0u);
    EXPECT_EQ(thief.heard(), "");
    // The thief has gone, and the next master begins.
    Serve();
    EXPECT_TRUE(RegisterUntilHeard(agent.get(), &agent_heard));
    server_.reset();
  }
}

TEST_F(SocketOwnerTest, ACommandSendsAStrangerNoTokenAndSaysWhoItIs) {
  StrangersPort thief(HeldNumber(), /*accepts=*/true);
  ControlClient client(
      {.address = thief.address(), .credentials = client_credentials_, .timeout = kAnswerPatience});
  const absl::Status asked = client.GetStatus().status();
  const auto problem = ProblemOf(asked);
  ASSERT_TRUE(problem) << asked;
  EXPECT_EQ(problem->code, "PL-E107");
  EXPECT_EQ(problem->where, thief.address());
  EXPECT_NE(problem->why.find("user id 12345"), std::string::npos) << problem->why;
  EXPECT_NE(problem->fix.find("--tls"), std::string::npos);
  EXPECT_TRUE(ProblemOf(client.Stop({})));
  EXPECT_TRUE(ProblemOf(client.WatchEvents(1, false, [](const JobEvent&) { return true; })));
  thief.Stop();
  EXPECT_EQ(thief.heard(), "");
}

TEST_F(SocketOwnerTest, ARelaySendsAStrangerNoToken) {
  StrangersPort thief(HeldNumber(), /*accepts=*/true);
  const auto relay = Relay::Start(
      {.listen = "127.0.0.1:0", .master = thief.address(), .credentials = client_credentials_});
  ASSERT_TRUE(relay.ok()) << relay.status();
  ControlClient client({.address = "127.0.0.1:" + std::to_string((*relay)->port()),
                        .credentials = client_credentials_,
                        .timeout = kAnswerPatience});
  const absl::Status asked = client.GetStatus().status();
  EXPECT_NE(Text(asked).find("user id 12345"), std::string::npos) << asked;
  thief.Stop();
  EXPECT_EQ(thief.heard(), "");
}

}  // namespace
}  // namespace paceline::wire
