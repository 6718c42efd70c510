#include "paceline/agent/ranks/store_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "paceline/base/fd.h"

namespace paceline::agent {
namespace {

TEST(StorePortTest, TwoHoldersNeverHaveOnePort) {
  StorePort first(5);
  StorePort second(5);
  ASSERT_TRUE(first.Hold().ok());
  ASSERT_TRUE(second.Hold().ok());
  EXPECT_NE(first.port(), 0);
  EXPECT_NE(first.port(), second.port());
}

TEST(StorePortTest, AFreshHoldIsAnotherPort) {
  StorePort holder(7);
  ASSERT_TRUE(holder.Hold().ok());
  const uint16_t former = holder.port();
  holder.Release();
  EXPECT_EQ(holder.port(), 0);
  ASSERT_TRUE(holder.Hold().ok());
  EXPECT_NE(holder.port(), former);
}

// Binds as masters do.
bool MayListen(uint16_t port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
         ::listen(fd.get(), 8) == 0;
}

TEST(StorePortTest, ALentPortIsHeldAgainstHoldersAndMayBeListenedOn) {
  StorePort lender(11);
  ASSERT_TRUE(lender.Hold().ok());
  EXPECT_FALSE(MayListen(lender.port()));
  lender.Lend();
  EXPECT_TRUE(MayListen(lender.port()));
  EXPECT_TRUE(MayListen(lender.port())) << "the next master";
  StorePort other(11);
  ASSERT_TRUE(other.Hold().ok());
  EXPECT_NE(other.port(), lender.port());
}

}  // namespace
}  // namespace paceline::agent
