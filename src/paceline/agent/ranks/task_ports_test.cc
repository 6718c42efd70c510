#include "paceline/agent/ranks/task_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

#include "gtest/gtest.h"

#include "paceline/base/fd.h"

namespace paceline::agent {
namespace {

// A socket that listens on the port; closed if the port cannot be had.
Fd ListenOn(uint32_t port, bool reuses) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuses ? 1 : 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool listens =
      ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      ::listen(fd.get(), 1) == 0;
  return listens ? std::move(fd) : Fd();
}

TEST(TaskPortsTest, EachSlotHasAPortThatOnlyItsTaskCanTake) {
  TaskPorts ports(1);
  ASSERT_TRUE(ports.Hold(4).ok());
  const std::vector<uint32_t> held = ports.ports();
  EXPECT_EQ(std::set<uint32_t>(held.begin(), held.end()).size(), 4u);
  EXPECT_FALSE(ListenOn(held[2], /*reuses=*/false).is_open());
  for (int life = 0; life < 3; ++life) {
    const Fd task = ListenOn(held[2], /*reuses=*/true);
    EXPECT_TRUE(task.is_open()) << "life " << life;
  }
}

TEST(TaskPortsTest, TheNextAgentTakesThePortOverWhenTheTaskDoesNotListen) {
  TaskPorts first(1);
  ASSERT_TRUE(first.Hold(1).ok());
  const uint32_t port = first.ports()[0];
  Fd task = ListenOn(port, /*reuses=*/true);
  ASSERT_TRUE(task.is_open());
  first = TaskPorts(1);
  TaskPorts second(2);
  ASSERT_TRUE(second.Hold(1).ok());
  EXPECT_NE(second.ports()[0], port);
  EXPECT_FALSE(second.Keep(0, port).ok());
  task.Close();
  EXPECT_TRUE(second.Keep(0, port).ok());
  EXPECT_TRUE(second.Keep(0, port).ok());
  EXPECT_EQ(second.ports()[0], port);
  EXPECT_TRUE(ListenOn(port, /*reuses=*/true).is_open());
  EXPECT_FALSE(second.Keep(1, port).ok());
}

}  // namespace
}  // namespace paceline::agent
