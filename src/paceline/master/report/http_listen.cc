#include "paceline/master/report/http_listen.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "paceline/base/host_text.h"

namespace paceline::master {

Fd ListenOnLoopback(int port) {
  const bool is_v6 = LoopbackHost() == "::1";
  Fd fd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  v4.sin_port = v6.sin6_port;
  const auto* address = is_v6 ? reinterpret_cast<const sockaddr*>(&v6)  //
                              : reinterpret_cast<const sockaddr*>(&v4);
  const socklen_t size = is_v6 ? sizeof(v6) : sizeof(v4);
  const int on = 1;
  const bool listens = fd.is_open() &&
                       ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                       ::bind(fd.get(), address, size) == 0 && ::listen(fd.get(), SOMAXCONN) == 0;
  return listens ? std::move(fd) : Fd();
}

int BoundPort(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace paceline::master
