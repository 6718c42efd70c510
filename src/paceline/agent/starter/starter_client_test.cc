#include "paceline/agent/starter/starter_client.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

// A socket whose listener has that user id; the kernel remembers who called listen().
Fd ListenAs(uid_t user, const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::seteuid(user), 0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
  EXPECT_EQ(::seteuid(0), 0);
  ::prctl(PR_SET_DUMPABLE, 1);  // the leak checker inspects its own process
  return fd;
}

TEST(StarterClientTest, TellsNothingToAStarterOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "PEER USER NOT TESTED: needs root to be another user";
  const TestDir dir;
  const std::string path = dir.path() + "/starter.sock";
  const Fd stranger = ListenAs(65534, path);
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::string lost;
  StarterListener listener;
  listener.lost = [&](const std::string& why) {
    lost = why;
    (*reactor)->Stop();
  };
  StarterClient client(**reactor, "job", "node0", listener);
  client.Connect({.socket_path = path});
  (*reactor)->Run();
  EXPECT_NE(lost.find("belongs to another user"), std::string::npos) << lost;
  const Fd accepted(::accept(stranger.get(), nullptr, nullptr));
  char byte = 0;
  EXPECT_EQ(::recv(accepted.get(), &byte, 1, 0), 0) << "closed, and nothing was said";
}

}  // namespace
}  // namespace paceline::agent
