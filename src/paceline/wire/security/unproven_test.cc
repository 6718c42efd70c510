#include "paceline/wire/security/unproven.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "gtest/gtest.h"
#include "paceline/base/fd.h"

namespace paceline::wire {
namespace {

sockaddr_storage AddressOf(const char* host, uint16_t port) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, host, &v6.sin6_addr), 1) << host;
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
  }
  return address;
}

Connection From(const std::string& peer) { return {.fd = -1, .inode = 0, .peer = peer}; }

TEST(PeerKey, IsOneTextForBothNamesOfAPeer) {
  EXPECT_EQ(PeerKey("ipv4:10.0.0.1:4711"), PeerKey(AddressOf("10.0.0.1", 4711)));
  EXPECT_EQ(PeerKey("ipv4:10.0.0.1:4711"), PeerKey(AddressOf("::ffff:10.0.0.1", 4711)));
  EXPECT_EQ(PeerKey("ipv6:%5B::1%5D:4711"), PeerKey(AddressOf("::1", 4711)));
  EXPECT_EQ(PeerKey("ipv6:[fe80::1%2]:4711"), PeerKey(AddressOf("fe80::1", 4711)));
  EXPECT_EQ(PeerKey("ipv6:%5Bfe80::1%252%5D:4711"), PeerKey(AddressOf("fe80::1", 4711)));
  EXPECT_NE(PeerKey("ipv4:10.0.0.1:4711"), PeerKey(AddressOf("10.0.0.1", 4712)));
  for (const char* odd : {"", "unix:/a:b", "ipv6:%", "ipv6:%5", "ipv6:%zz]"}) PeerKey(odd);
}

TEST(UnprovenConnections, TheOldestOfAFullAddressGoes) {
  UnprovenConnections connections({.per_host = 2, .in_all = 100});
  EXPECT_FALSE(connections.Add(From("10.0.0.1:1")));
  EXPECT_FALSE(connections.Add(From("10.0.0.1:2")));
  EXPECT_FALSE(connections.Add(From("10.0.0.2:1"))) << "another address is not concerned";
  EXPECT_EQ(connections.Add(From("10.0.0.1:3"))->peer, "10.0.0.1:1");
  connections.Prove("ipv4:10.0.0.1:2");
  EXPECT_FALSE(connections.Add(From("10.0.0.1:4"))) << "one of them has shown the token";
  EXPECT_EQ(connections.Add(From("10.0.0.1:5"))->peer, "10.0.0.1:3");
  EXPECT_EQ(connections.size(), 3u);
}

TEST(UnprovenConnections, AllAddressesTogetherHaveABoundToo) {
  UnprovenConnections connections({.per_host = 2, .in_all = 3});
  for (const char* peer : {"[::1]:1", "[::2]:1", "[::3]:1"}) {
    EXPECT_FALSE(connections.Add(From(peer)));
  }
  EXPECT_EQ(connections.Add(From("[::4]:1"))->peer, "[::1]:1");
  EXPECT_EQ(connections.TakeOldest()->peer, "[::2]:1");
  EXPECT_EQ(connections.size(), 2u);
}

TEST(UnprovenConnections, BoundsAreSharedOnLoopbackAndMayBeGiven) {
  const auto of = [](const char* listen, uint32_t asked, uint32_t all,
                     uint64_t descriptors = 1'000'000) {
    const auto bounds = UnprovenConnections::BoundsFor(listen, asked, all, descriptors);
    return std::pair(bounds.per_host, bounds.in_all);
  };
  EXPECT_EQ(of("10.0.0.1:1", 0, 20'000), std::pair(1024u, 20'000u));
  EXPECT_EQ(of("127.0.0.1:1", 0, 20'000), std::pair(20'000u, 20'000u));
  EXPECT_EQ(of("10.0.0.1:1", 7, 20'000), std::pair(7u, 20'000u));
  EXPECT_EQ(of("127.0.0.1:1", 0, 0), std::pair(1024u, 1024u));
  EXPECT_EQ(of("127.0.0.1:1", 0, 20'000, 20'000), std::pair(10'000u, 10'000u))
      << "the job has descriptors left";
  EXPECT_EQ(of("10.0.0.1:1", 5'000, 20'000, 1'024), std::pair(512u, 512u));
  UnprovenConnections nothing({.per_host = 0, .in_all = 0});
  EXPECT_FALSE(nothing.Add(From("10.0.0.1:1"))) << "there is nobody to go";
}

TEST(UnprovenConnections, ThePortOfADeadOneIsUsedAgain) {
  UnprovenConnections connections({.per_host = 1, .in_all = 1});
  EXPECT_FALSE(connections.Add(From("10.0.0.1:1")));
  EXPECT_FALSE(connections.Add(From("10.0.0.1:1")));
  connections.Prove("ipv4:10.0.0.1:1");
  connections.Prove("ipv4:10.0.0.1:1");
  EXPECT_EQ(connections.size(), 0u);
  EXPECT_FALSE(connections.TakeOldest());
}

// A TCP connection to this process: the accepted end, as the listener tells it, and the peer's.
struct Accepted {
  Fd here;
  Fd there;
  Connection told;
};

Accepted AcceptOne(const std::string& peer) {
  const Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address = AddressOf("127.0.0.1", 0);
  socklen_t size = sizeof(sockaddr_in);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listening.get(), name, size), 0);
  EXPECT_EQ(listen(listening.get(), 1), 0);
  EXPECT_EQ(getsockname(listening.get(), name, &size), 0);
  Accepted accepted{.here = Fd(),
                    .there = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                    .told = From(peer)};
  EXPECT_EQ(connect(accepted.there.get(), name, size), 0);
  accepted.here = Fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  struct stat socket {};
  EXPECT_EQ(fstat(accepted.here.get(), &socket), 0);
  accepted.told.fd = accepted.here.get();
  accepted.told.inode = socket.st_ino;
  return accepted;
}

TEST(UnprovenConnections, OneThatSendsTooMuchWithoutTheTokenGoes) {
  UnprovenConnections connections({.per_host = 10, .in_all = 10});
  const Accepted greedy = AcceptOne("10.0.0.1:1");
  const Accepted modest = AcceptOne("10.0.0.1:2");
  Accepted closed = AcceptOne("10.0.0.1:3");
  for (const Accepted* one : {&greedy, &modest, static_cast<const Accepted*>(&closed)}) {
    connections.Add(one->told);
  }
  EXPECT_TRUE(connections.TakeGreedy().empty());
  const std::string sent(64 << 10, 'x');
  std::string got(sent.size(), ' ');
  for (uint64_t bytes = 0; bytes <= kUnprovenBytesMax; bytes += sent.size()) {
    ASSERT_EQ(send(greedy.there.get(), sent.data(), sent.size(), 0), ssize_t(sent.size()));
    ASSERT_EQ(recv(greedy.here.get(), got.data(), got.size(), MSG_WAITALL), ssize_t(got.size()));
  }
  ASSERT_EQ(send(modest.there.get(), sent.data(), 1000, 0), 1000);
  closed.here = Fd();
  const auto taken = connections.TakeGreedy();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken.front().peer, "10.0.0.1:1");
  EXPECT_EQ(connections.size(), 1u) << "the closed one is forgotten";
  EXPECT_TRUE(connections.TakeGreedy().empty());
}

TEST(ShutDown, EndsTheSocketThatWasMeantAndNoOther) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const Fd here(ends[0]);
  const Fd there(ends[1]);
  struct stat socket {};
  ASSERT_EQ(fstat(here.get(), &socket), 0);
  const auto is_open = [&] { return write(there.get(), "x", 1) == 1; };
  ::signal(SIGPIPE, SIG_IGN);
  ShutDown({.fd = here.get(), .inode = socket.st_ino + 1, .peer = ""});
  ShutDown({.fd = -1, .inode = socket.st_ino, .peer = ""});
  EXPECT_TRUE(is_open()) << "that descriptor is another socket by now";
  ShutDown({.fd = here.get(), .inode = socket.st_ino, .peer = ""});
  EXPECT_FALSE(is_open());
}

}  // namespace
}  // namespace paceline::wire
