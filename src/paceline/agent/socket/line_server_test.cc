#include "paceline/agent/socket/line_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

TEST(LineServerTest, AConnectionThatFoundNoFreeDescriptorIsTakenLater) {
  const TestDir dir;
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::string heard;
  const std::string path = dir.path() + "/s";
  auto server = LineServer::Listen(**reactor, path,
                                   {.line =
                                        [&](LineServer::PeerId, const std::string& line) {
                                          heard = line;
                                          (*reactor)->Stop();
                                        },
                                    .gone = [](LineServer::PeerId) {}});
  ASSERT_TRUE(server.ok()) << server.status();
  const Fd client(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::send(client.get(), "hello\n", 6, 0), 6);

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = static_cast<rlim_t>(client.get()) + 1;  // no lower descriptor is free
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  // The second timer comes in a later round of the loop than the failed accept.
  (*reactor)->CallAt(MonotonicNs(), [&] {
    (*reactor)->CallAt(MonotonicNs() + 1, [&] { ::setrlimit(RLIMIT_NOFILE, &before); });
  });
  (*reactor)->Run();
  EXPECT_EQ(heard, "hello");
}

}  // namespace
}  // namespace paceline::agent
