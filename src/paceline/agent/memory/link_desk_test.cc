// Tests of links over loopback: a host that answers, one that refuses, and one that stands still.

#include "paceline/agent/memory/link_desk.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/memory/link_probe.h"
#include "paceline/agent/memory/peer_memory.h"
#include "paceline/base/fd.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

class LinkDeskTest : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    auto reactor = Reactor::Create();
    ASSERT_TRUE(reactor.ok());
    reactor_ = *std::move(reactor);
  }

  // An agent's memory, whose server is that of images.
  void Serve() {
    shelf_ = std::make_unique<ArenaShelf>(ArenaShelf::Roots{dir_.path() + "/user/job"}, "job", "b");
    auto made =
        PeerMemory::Start(*reactor_, shelf_.get(), {"peer", "127.0.0.1", Credentials()}, [] {});
    ASSERT_TRUE(made.ok()) << made.status();
    memory_ = *std::move(made);
  }

  wire::Credentials Credentials() const {
    wire::Credentials credentials;
    credentials.token = token_;
    return credentials;
  }

  // Tries this link, and returns what the desk tells.
  LinkTested Try(const std::string& address, uint32_t chunks = 2) {
    std::optional<LinkTested> told;
    LinkDesk desk(*reactor_, Credentials(), [&](const LinkTested& tested) {
      told = tested;
      reactor_->Stop();
    });
    desk.Try({.round = 7, .peer = "peer", .address = address, .chunks = chunks});
    reactor_->Run();
    return told.value_or(LinkTested());
  }

  // A listener that accepts nothing by itself: the kernel completes its connections.
  std::string Listen(Fd* listener) {
    *listener = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* as_any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(0, ::bind(listener->get(), as_any, size));
    EXPECT_EQ(0, ::listen(listener->get(), 1));
    EXPECT_EQ(0, ::getsockname(listener->get(), as_any, &size));
    return Concat("127.0.0.1:", ntohs(address.sin_port));
  }

  TestDir dir_;
  std::string token_ = wire::MakeToken();
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<ArenaShelf> shelf_;
  std::unique_ptr<PeerMemory> memory_;
};

TEST_F(LinkDeskTest, ChunksComeFromAHostThatAnswers) {
  Serve();
  const LinkTested tested = Try(memory_->address());
  EXPECT_EQ(7u, tested.round);
  EXPECT_EQ("peer", tested.peer);
  EXPECT_EQ("", tested.problem);
  EXPECT_GT(tested.gb_s, 0);
}

TEST_F(LinkDeskTest, AClosedPortIsAProblem) {
  Fd listener;
  const std::string address = Listen(&listener);
  listener.Close();
  const LinkTested tested = Try(address);
  EXPECT_NE("", tested.problem);
  EXPECT_EQ(0, tested.gb_s);
}

TEST_F(LinkDeskTest, AHostThatStandsStillIsGivenUp) {
  Fd listener;
  const LinkTested tested = Try(Listen(&listener));
  EXPECT_NE("", tested.problem);
  EXPECT_EQ(0, tested.gb_s);
}

TEST_F(LinkDeskTest, AHostWithoutTheTokenIsAProblem) {
  Serve();
  token_ = wire::MakeToken();
  EXPECT_NE("", Try(memory_->address()).problem);
}

TEST_F(LinkDeskTest, ANewerOrderReplacesOneThatWaits) {
  Serve();
  std::vector<uint64_t> rounds;
  LinkDesk desk(*reactor_, Credentials(), [&](const LinkTested& tested) {
    rounds.push_back(tested.round);
    if (tested.round == 3) reactor_->Stop();
  });
  for (const uint64_t round : {1, 2, 3}) {
    desk.Try({.round = round, .peer = "peer", .address = memory_->address(), .chunks = 1});
  }
  reactor_->Run();
  EXPECT_EQ((std::vector<uint64_t>{1, 3}), rounds);
}

}  // namespace
}  // namespace paceline::agent
