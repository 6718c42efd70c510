#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/wire/bulk/lease_server.h"
#include "paceline/wire/bulk/lease_socket.h"
#include "paceline/wire/security/certificates.h"

namespace paceline::wire {
namespace {

constexpr Duration kLeasePatience = Duration::Seconds(20);

// Answers each frame with itself, and records received frames.
class Echo {
 public:
  explicit Echo(const ServerCredentials& credentials) {
    auto server = LeaseServer::Open({.listen = "127.0.0.1:0"}, credentials);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->Start({.heard =
                        [this](LeaseServer::LinkId link, const std::vector<LeaseFrame>& frames) {
                          for (const LeaseFrame& frame : frames) server_->Send(link, frame);
                        },
                    .broken =
                        [this](LeaseServer::LinkId, bool is_silent) {
                          const std::lock_guard lock(mutex_);
                          broken_.push_back(is_silent);
                          changed_.notify_all();
                        },
                    .round = [] { return Instant::Max(); }});
  }
  ~Echo() { server_->Stop(); }

  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  bool AwaitBroken() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !broken_.empty(); });
    return broken_.front();
  }

 private:
  std::unique_ptr<LeaseServer> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> broken_;
};

std::vector<LeaseFrame> Exchange(LeaseSocket* socket, const std::vector<LeaseFrame>& frames) {
  for (const LeaseFrame& frame : frames) socket->Add(frame);
  std::vector<LeaseFrame> heard;
  while (heard.size() < frames.size()) {
    EXPECT_TRUE(socket->Flush().ok());
    if (!socket->Receive(&heard).ok()) break;
    std::this_thread::yield();
  }
  return heard;
}

std::vector<LeaseFrame> Some() {
  std::vector<LeaseFrame> frames;
  for (uint64_t i = 0; i < 1'000; ++i) {
    frames.push_back({.op = LeaseOp::kAck, .number = i, .text = std::string(i % 300, 'x')});
  }
  return frames;
}

TEST(LeaseChannelTest, FramesGoBothWaysInOrder) {
  const ServerCredentials credentials{.token = MakeToken()};
  Echo echo(credentials);
  auto socket = LeaseSocket::Dial(echo.address(), {.token = credentials.token}, kLeasePatience);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(Exchange(socket->get(), Some()), Some());
  socket->reset();
  EXPECT_FALSE(echo.AwaitBroken()) << "it was closed, not silent";
}

// Both sides send in parts, and compact what is left.
TEST(LeaseChannelTest, MoreThanASocketHoldsArrivesInOrder) {
  const ServerCredentials credentials{.token = MakeToken()};
  Echo echo(credentials);
  auto socket = LeaseSocket::Dial(echo.address(), {.token = credentials.token}, kLeasePatience);
  ASSERT_TRUE(socket.ok()) << socket.status();
  std::vector<LeaseFrame> many;
  for (uint64_t i = 0; i < 20'000; ++i) {
    many.push_back({.op = LeaseOp::kAck, .number = i, .text = std::string(i % 1'000, 'x')});
  }
  EXPECT_TRUE(Exchange(socket->get(), many) == many);
}

TEST(LeaseChannelTest, ALinkWithoutAWordIsCut) {
  const ServerCredentials credentials{.token = MakeToken()};
  Echo echo(credentials);
  auto socket = LeaseSocket::Dial(echo.address(), {.token = credentials.token}, kLeasePatience);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(echo.AwaitBroken());
}

TEST(LeaseChannelTest, AWrongTokenIsLetInNowhere) {
  Echo echo({.token = MakeToken()});
  const auto socket = LeaseSocket::Dial(echo.address(), {.token = MakeToken()}, kLeasePatience);
  EXPECT_EQ(socket.status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(LeaseChannelTest, WithCertificatesBothSidesShowTheirs) {
  auto server = MakeServerCredentials("job", MakeToken());
  ASSERT_TRUE(server.ok());
  auto client = MakeClientCredentials(*server, {"host0"});
  ASSERT_TRUE(client.ok());
  Echo echo(*server);
  auto socket = LeaseSocket::Dial(echo.address(), *client, kLeasePatience);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(Exchange(socket->get(), Some()), Some());
  const Credentials plain{.token = server->token};
  EXPECT_FALSE(LeaseSocket::Dial(echo.address(), plain, Duration::Seconds(1)).ok());
}

TEST(LeaseChannelTest, AnOpenAddressNeedsCertificates) {
  const auto server = LeaseServer::Open({.listen = "0.0.0.0:0"}, {.token = MakeToken()});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline::wire
