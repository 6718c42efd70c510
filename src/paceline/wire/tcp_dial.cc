#include "paceline/wire/tcp_dial.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "paceline/base/status_macros.h"
#include "paceline/wire/client/resolve.h"

namespace paceline::wire {

bool WaitForSocket(int fd, short what, DialDeadline until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                        until - std::chrono::steady_clock::now())
                        .count();
  if (left <= 0) return false;
  pollfd wait = {.fd = fd, .events = what, .revents = 0};
  return poll(&wait, 1, static_cast<int>(left)) > 0;
}

absl::StatusOr<Fd> DialTcp(const std::string& address, DialDeadline until) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::InvalidArgumentError("address without a port");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const auto unavailable = [&](const char* why) {
    return MakeStatus(absl::StatusCode::kUnavailable, address + ": " + why);
  };
  const AddressList addresses =
      Resolve(host, address.substr(colon + 1), {.ai_socktype = SOCK_STREAM});
  if (addresses == nullptr) return unavailable("the host name does not resolve");
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Fd fd(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) continue;
    if (connect(fd.get(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    if (!WaitForSocket(fd.get(), POLLOUT, until) ||
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      continue;
    }
    return fd;
  }
  return unavailable("nobody answers");
}

}  // namespace paceline::wire
