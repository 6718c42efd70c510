#pragma once

// Connects to a Unix socket of this host.

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "paceline/base/fd.h"

namespace paceline {

// Closed: nobody listens there; errno says why. `flags`: SOCK_NONBLOCK, or 0.
inline Fd DialUnix(const std::string& path, int flags) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return Fd();
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  if (!fd.is_open() || ::connect(fd.get(), any, sizeof(address)) == 0) return fd;
  const int why = errno;
  fd.Close();
  errno = why;
  return fd;
}

}  // namespace paceline
