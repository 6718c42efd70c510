#include "paceline/agent/hang/socket_peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "paceline/agent/hang/process_look.h"
#include "paceline/base/fd.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

TEST(SocketPeer, ReadsTheKernelsAddresses) {
  EXPECT_EQ("10.0.0.3:8080", AddressText("0300000A:1F90"));
  EXPECT_EQ("[::1]:443", AddressText("00000000000000000000000001000000:01BB"));
  // 10.0.0.3 behind a socket that serves both families.
  EXPECT_EQ("10.0.0.3:80", AddressText("0000000000000000FFFF00000300000A:0050"));
}

TEST(SocketPeer, TakesNothingFromABrokenOrZeroAddress) {
  for (const char* text : {"", ":", "0300000A", "0300000A:", "0300000:1F90", "0300000X:1F90",
                           "00000000:0000", "00000000000000000000000000000000:0000"}) {
    EXPECT_EQ("", AddressText(text)) << text;
  }
}

TEST(SocketPeer, ReadsTheInodeOfASocket) {
  EXPECT_EQ(12345u, SocketInode("socket:[12345]"));
  for (const char* text : {"", "pipe:[5]", "socket:[", "socket:[x]", "/data/socket:[5]"}) {
    EXPECT_EQ(0u, SocketInode(text)) << text;
  }
}

uint64_t InodeOf(const Fd& fd) {
  struct stat seen {};
  EXPECT_EQ(0, ::fstat(fd.get(), &seen));
  return seen.st_ino;
}

TEST(SocketPeer, FindsTheOtherEndOfARealConnection) {
  const Fd one(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ("", PeerOf("/proc/self", InodeOf(one)));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(4053);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(0, ::connect(one.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)));
  EXPECT_EQ("127.0.0.1:4053", PeerOf("/proc/self", InodeOf(one)));
}

// A process in a folder as in /proc, asleep in that system call, with one socket as descriptor 5.
class SocketPeerOfProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/fd");
    std::filesystem::create_directories(folder_ + "/net");
    std::filesystem::create_symlink("socket:[777]", folder_ + "/fd/5");
    std::ofstream(folder_ + "/stat") << "7 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0";
  }
  void AddTable(const std::string& name, const std::string& remote) {
    std::ofstream(folder_ + "/net/" + name)
        << "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        << "   0: 0100007F:D2F0 " << remote
        << " 01 00000000:00000000 00:00000000 00000000     0        0 777 2 0 10 0\n";
  }
  std::string WaitsIn(const std::string& call) {
    std::ofstream(folder_ + "/syscall") << call << "\n";
    return LookAt({7, 99}, dir_.path()).waits_in;
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path() + "/7";
};

TEST_F(SocketPeerOfProcess, IsToldWithTheCall) {
  AddTable("tcp", "0300000A:1F90");
  EXPECT_EQ("receive from 10.0.0.3:8080", WaitsIn("45 0x5 0x7f 0x80 0x0 0x0 0x0 0x7ffe 0x7f"));
  EXPECT_EQ("read from 10.0.0.3:8080", WaitsIn("0 0x5 0x7f 0x80 0x0 0x0 0x0 0x7ffe 0x7f"));
}

TEST_F(SocketPeerOfProcess, IsNotInventedWhenTheTableLacksIt) {
  EXPECT_EQ("receive of a socket", WaitsIn("45 0x5 0x7f 0x80 0x0 0x0 0x0 0x7ffe 0x7f"));
}

// getaddrinfo sends a question by UDP, and polls for the answer.
TEST_F(SocketPeerOfProcess, OfAPollIsThatOfItsFirstDescriptor) {
  AddTable("udp", "0200000A:0035");
  const std::string call = "7 0x40 0x1 0x1388 0x0 0x0 0x0 0x7ffe 0x7f";
  EXPECT_EQ("poll", WaitsIn(call));  // the agent may not read the process's memory
  std::ofstream(folder_ + "/mem") << std::string(0x40, '\0') << std::string("\5\0\0\0\1\0\0\0", 8);
  EXPECT_EQ("poll of 10.0.0.2:53, a name server", WaitsIn(call));
}

}  // namespace
}  // namespace paceline::agent
