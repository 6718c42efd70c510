#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/wire/bulk/lease_server.h"
#include "paceline/wire/bulk/lease_socket.h"
#include "paceline/wire/security/certificates.h"

namespace paceline::wire {
namespace {

constexpr Duration kLeasePatience = Duration::Seconds(20);

// A server that answers each frame with itself. Its clients run on the server's own thread, because
// the server cuts a link that is silent for a second, and a busy machine may stop another thread
// for longer.
class Echo {
 public:
  explicit Echo(const ServerCredentials& credentials) {
    ::signal(SIGPIPE, SIG_IGN);
    auto server = LeaseServer::Open({.listen = "127.0.0.1:0"}, credentials);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->Start(
        {.heard =
             [this](LeaseServer::LinkId link, const std::vector<LeaseFrame>& frames) {
               for (const LeaseFrame& frame : frames) server_->Send(link, frame);
             },
         .broken = [this](LeaseServer::LinkId, bool is_silent) { broken_.Set(is_silent); },
         .round = [this] { return Round(); }});
  }
  ~Echo() { server_->Stop(); }

  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  bool AwaitBroken() { return broken_.Await(); }

  // Opens a new link, sends the frames, closes the link after the last answer, and returns the
  // answers.
  std::vector<LeaseFrame> Exchange(const Credentials& credentials,
                                   const std::vector<LeaseFrame>& frames) {
    server_->Post([&] {
      auto socket = LeaseSocket::Dial(address(), credentials, kLeasePatience);
      EXPECT_TRUE(socket.ok()) << socket.status();
      if (!socket.ok()) return answers_.Set({});
      client_ = *std::move(socket);
      awaited_ = frames.size();
      for (const LeaseFrame& frame : frames) client_->Add(frame);
    });
    return answers_.Await();
  }

 private:
  // A value that the server's thread sets and the test awaits.
  template <class Value>
  class Told {
   public:
    void Set(Value value) {
      const std::lock_guard lock(mutex_);
      value_ = std::move(value);
      changed_.notify_all();
    }
    Value Await() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return value_.has_value(); });
      return *std::exchange(value_, std::nullopt);
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Value> value_;
  };

  Instant Round() {
    if (client_ == nullptr) return Instant::Max();
    const bool is_sent = client_->Flush().ok();
    EXPECT_TRUE(is_sent);
    if (is_sent && client_->Receive(&heard_).ok() && heard_.size() < awaited_) {
      return LeaseServer::Now();
    }
    client_ = nullptr;
    answers_.Set(std::exchange(heard_, {}));
    return Instant::Max();
  }

  std::unique_ptr<LeaseServer> server_;
  // Used on the server's thread.
  std::unique_ptr<LeaseSocket> client_;
  size_t awaited_ = 0;
  std::vector<LeaseFrame> heard_;

  Told<std::vector<LeaseFrame>> answers_;
  Told<bool> broken_;
};

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
  EXPECT_EQ(echo.Exchange({.token = credentials.token}, Some()), Some());
  EXPECT_FALSE(echo.AwaitBroken()) << "it was closed, not silent";
}

// Both sides send in parts, and compact what is left.
TEST(LeaseChannelTest, MoreThanASocketHoldsArrivesInOrder) {
  const ServerCredentials credentials{.token = MakeToken()};
  Echo echo(credentials);
  std::vector<LeaseFrame> many;
  for (uint64_t i = 0; i < 20'000; ++i) {
    many.push_back({.op = LeaseOp::kAck, .number = i, .text = std::string(i % 1'000, 'x')});
  }
  EXPECT_TRUE(echo.Exchange({.token = credentials.token}, many) == many);
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
  EXPECT_EQ(echo.Exchange(*client, Some()), Some());
  const Credentials plain{.token = server->token};
  EXPECT_FALSE(LeaseSocket::Dial(echo.address(), plain, Duration::Seconds(1)).ok());
}

TEST(LeaseChannelTest, AnOpenAddressNeedsCertificates) {
  const auto server = LeaseServer::Open({.listen = "0.0.0.0:0"}, {.token = MakeToken()});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline::wire
