#include "paceline/agent/tables/table_links.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <cerrno>

#include <chrono>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "paceline/base/socket_bytes.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/text.h"
#include "paceline/base/unix_dial.h"
#include "paceline/model/task.h"

namespace paceline::agent {
namespace {

constexpr char kHere[] = "127.0.0.1";
constexpr char kThere[] = "127.0.0.2";

// Of which the next one is most likely free, too.
uint32_t FreePort() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof(any);
  ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), size);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&any), &size);
  return ntohs(any.sin_port);
}

Task Server(uint32_t number, const char* host, uint32_t port) {
  return {.rank = TaskRank(TaskKind::kPs, number), .host = host, .port = port};
}

// A worker and ps-0 are here, ps-1 is there.
Assignment Order(uint32_t port) {
  Assignment order;
  order.kind = Assignment::Kind::kRun;
  const Task worker{.rank = TaskRank(TaskKind::kWorker, 0), .host = kHere, .port = port + 2};
  order.cluster = {worker, Server(0, kHere, port), Server(1, kThere, port + 1)};
  order.tasks = {worker, Server(0, kHere, port)};
  return order;
}

// The same order as the other host gets it.
Assignment OtherOrder(uint32_t port) {
  Assignment order = Order(port);
  order.tasks = {Server(1, kThere, port + 1)};
  return order;
}

TEST(LinksOf, LeadsToServersOfOtherHostsAndFromThemToThoseHere) {
  const LinksPlace place{
      .has_tables = true, .host = kHere, .beside = "/run/p/leases.sock", .run_dir = "/runs/a"};
  const WantedLinks links = LinksOf(Order(7000), place);
  ASSERT_EQ(links.sockets.size(), 1u);
  EXPECT_TRUE(links.sockets.begin()->first.starts_with("/run/p/table-"));
  EXPECT_TRUE(links.sockets.begin()->first.ends_with("-1.sock"));
  EXPECT_EQ(links.sockets.begin()->second, "127.0.0.2:7001");
  ASSERT_EQ(links.gates.size(), 1u);
  EXPECT_TRUE(links.gates.at(7000).ends_with("-0.sock"));
}

TEST(LinksOf, IsNothingOnOneHost) {
  Assignment order = Order(7000);
  order.cluster.pop_back();
  EXPECT_EQ(
      LinksOf(order,
              {.has_tables = true, .host = kHere, .beside = "/run/p/leases.sock", .run_dir = "/r"}),
      WantedLinks{});
}

TEST(LinksOf, IsNothingInATensorFlowJob) {
  EXPECT_EQ(LinksOf(Order(7000), {.host = kHere, .beside = "/run/p/leases.sock", .run_dir = "/r"}),
            WantedLinks{});
}

// Two agents, each with its own directory as on two hosts, and ps-1 there, which sends back what it
// gets.
class TableLinksTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    const std::string token = wire::MakeToken();
    const wire::ServerCredentials job = GetParam() ? *wire::MakeServerCredentials("job", token)
                                                   : wire::ServerCredentials{.token = token};
    here_ = std::make_unique<TableLinks>(PlaceOf("here", kHere),
                                         *wire::MakeClientCredentials(job, {"a"}));
    there_ = std::make_unique<TableLinks>(PlaceOf("there", kThere),
                                          *wire::MakeClientCredentials(job, {"b"}));
    worker_socket_ = LinksOf(Order(1), PlaceOf("here", kHere)).sockets.begin()->first;
    server_socket_ = LinksOf(OtherOrder(1), PlaceOf("there", kThere)).gates.begin()->second;
  }

  LinksPlace PlaceOf(const std::string& name, const char* host) {
    return {.has_tables = true,
            .host = host,
            .beside = Concat(directory_.path(), "/", name, "-leases"),
            .run_dir = Concat("/runs/", name)};
  }

  void StartServer() {
    auto server = LocalServer::Listen(server_socket_, 8, [](const Fd& fd) {
      std::string bytes(1 << 16, '\0');
      for (;;) {
        const ssize_t got = ::recv(fd.get(), bytes.data(), bytes.size(), 0);
        if (got <= 0 || !SendAll(fd.get(), bytes.data(), static_cast<size_t>(got))) return;
      }
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Sends `bytes` from a worker, and gets as many back; "": the connection ended before.
  std::string Ask(const std::string& bytes) const {
    const Fd fd = DialUnix(worker_socket_, 0);
    if (!fd.is_open()) return "";
    std::thread sender([&] { SendAll(fd.get(), bytes.data(), bytes.size()); });
    std::string back(bytes.size(), '\0');
    const bool is_whole = ReceiveAll(fd.get(), back.data(), back.size());
    ::shutdown(fd.get(), SHUT_RDWR);
    sender.join();
    return is_whole ? back : "";
  }
  // Repeats it while the links are not open yet.
  std::string AskUntilAnswered(const std::string& bytes) const {
    for (int i = 0; i < 3'000; ++i) {
      if (std::string back = Ask(bytes); !back.empty()) return back;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "";
  }

  TestDir directory_;
  std::unique_ptr<TableLinks> here_;
  std::unique_ptr<TableLinks> there_;
  std::string worker_socket_;
  std::string server_socket_;
  std::unique_ptr<LocalServer> server_;
};

INSTANTIATE_TEST_SUITE_P(PlainAndTls, TableLinksTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Tls" : "Plain");
});

TEST_P(TableLinksTest, CarryBothWaysWhateverTheSize) {
  const uint32_t port = FreePort();
  here_->Take(Order(port));
  there_->Take(OtherOrder(port));
  StartServer();
  EXPECT_EQ(AskUntilAnswered("hello"), "hello");
  std::string large(24 << 20, 'x');
  for (size_t i = 0; i < large.size(); i += 4096) large[i] = static_cast<char>('a' + i % 23);
  EXPECT_TRUE(Ask(large) == large);
}

TEST_P(TableLinksTest, OutliveTheServer) {
  const uint32_t port = FreePort();
  here_->Take(Order(port));
  there_->Take(OtherOrder(port));
  StartServer();
  EXPECT_EQ(AskUntilAnswered("hello"), "hello");
  server_.reset();
  EXPECT_EQ(Ask("hello"), "");
  StartServer();
  EXPECT_EQ(AskUntilAnswered("again"), "again");
}

TEST_P(TableLinksTest, EndWithTheOrder) {
  const uint32_t port = FreePort();
  here_->Take(Order(port));
  there_->Take(OtherOrder(port));
  StartServer();
  EXPECT_EQ(AskUntilAnswered("hello"), "hello");
  const Fd open = DialUnix(worker_socket_, 0);
  ASSERT_TRUE(open.is_open());
  here_->Take({});
  char byte = 0;
  const ssize_t got = ::recv(open.get(), &byte, 1, 0);
  // The kernel resets a connection that nobody had accepted yet.
  EXPECT_TRUE(got == 0 || (got == -1 && errno == ECONNRESET)) << "an open connection ends, too";
}

TEST_P(TableLinksTest, LeaveASocketToTheProcessThatHasIt) {
  auto other = LocalServer::Listen(worker_socket_, 8, [](const Fd&) {});
  ASSERT_TRUE(other.ok());
  const uint32_t port = FreePort();
  here_->Take(Order(port));
  there_->Take(OtherOrder(port));
  StartServer();
  EXPECT_EQ(Ask("hello"), "");
  other->reset();
  EXPECT_EQ(AskUntilAnswered("hello"), "hello");
}

}  // namespace
}  // namespace paceline::agent
