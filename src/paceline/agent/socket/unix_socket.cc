#include "paceline/agent/socket/unix_socket.h"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr int kBacklog = 128;
constexpr int64_t kAcceptPauseNs = 20'000'000;

absl::Status Failed(std::string_view what, const std::string& path) {
  return absl::InternalError(Concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Fd> ListenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(Concat("the path of a socket is too long: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Failed("make", path);
  ::unlink(path.c_str());
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(fd.get(), any, sizeof(address)) != 0) return Failed("bind", path);
  ::chmod(path.c_str(), 0600);
  if (::listen(fd.get(), kBacklog) != 0) return Failed("listen on", path);
  return fd;
}

void PauseAccepting(Reactor& reactor, int listening, int error, Reactor::TimerId* timer) {
  if (error == EAGAIN) return;  // all connections were accepted
  reactor.Change(listening, 0);
  *timer = reactor.CallAt(MonotonicNs() + kAcceptPauseNs,
                          [&reactor, listening] { reactor.Change(listening, EPOLLIN); });
}

std::optional<ucred> SameUserAt(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool is_known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return is_known && peer.uid == ::geteuid() ? std::optional(peer) : std::nullopt;
}

}  // namespace paceline::agent
