#include "paceline/base/host_text.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "paceline/base/fd.h"
#include "paceline/base/text.h"

namespace paceline {

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string LoopbackHost() {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool has_v4 = fd.is_open() && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                                             sizeof(address)) == 0;
  return has_v4 ? "127.0.0.1" : "::1";
}

std::string Bracketed(const std::string& host) {
  const bool is_bare = host.find(':') != std::string::npos && host.front() != '[';
  return is_bare ? Concat("[", host, "]") : host;
}

}  // namespace paceline
