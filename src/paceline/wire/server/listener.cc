#include "paceline/wire/server/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/client/resolve.h"

namespace paceline::wire {
namespace {

constexpr int kLookMilliseconds = 100;
constexpr int kPauseMilliseconds = 10;  // pause before accepting again without a free descriptor

int PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

void SetPort(sockaddr_storage* address, int port) {
  if (address->ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<uint16_t>(port));
  }
}

// Closed if it cannot be bound; errno says why.
Fd ListenAt(const sockaddr_storage& address, socklen_t size) {
  Fd fd(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  // Lets the job's next master bind the port while old connections linger. It does not allow two
  // masters at once; that would need SO_REUSEPORT.
  if (!fd.is_open() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return Fd();
  }
  return fd;
}

sockaddr_storage BoundTo(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return bound;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::InvalidArgumentError("address without a port");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = address.substr(colon + 1);
  const bool is_number = Resolve(host, port, {.ai_flags = AI_NUMERICHOST}) != nullptr;
  absl::StatusOr<std::unique_ptr<Listener>> listener;
  WhileNamesSpread([&] {
    listener = OpenNow(host, port);
    return is_number || !absl::IsNotFound(listener.status());
  });
  return listener;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::OpenNow(const std::string& host,
                                                            const std::string& port) {
  const AddressList addresses =
      Resolve(host, port, {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM});
  if (addresses == nullptr) return absl::NotFoundError("the host name does not resolve");
  std::unique_ptr<Listener> listener(new Listener);
  listener->stop_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener->stop_.is_open()) return absl::ResourceExhaustedError("no eventfd");
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    sockaddr_storage wanted{};
    if (at->ai_addrlen > sizeof(wanted)) continue;
    std::memcpy(&wanted, at->ai_addr, at->ai_addrlen);
    if (listener->port_ != 0) SetPort(&wanted, listener->port_);
    if (listener->Has(wanted)) continue;  // /etc/hosts may list an address twice
    Fd fd = ListenAt(wanted, at->ai_addrlen);
    if (!fd.is_open()) {
      error = errno;
      // Listening on only some of a name's addresses would make the master unreachable for some
      // hosts.
      if (error == EADDRINUSE) {
        listener->sockets_.clear();
        break;
      }
      continue;
    }
    listener->port_ = PortOf(BoundTo(fd.get()));
    listener->sockets_.push_back(std::move(fd));
  }
  if (!listener->sockets_.empty()) return listener;
  const bool is_not_ours = error == EADDRNOTAVAIL;
  return MakeStatus(is_not_ours ? absl::StatusCode::kNotFound : absl::StatusCode::kAlreadyExists,
                    std::strerror(error));
}

bool Listener::Has(const sockaddr_storage& address) const {
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [&](const Fd& fd) { return PeerKey(BoundTo(fd.get())) == PeerKey(address); });
}

void Listener::Start(Hooks hooks) {
  hooks_ = std::move(hooks);
  thread_ = std::thread([this] { Run(); });
}

Listener::~Listener() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void Listener::Run() {
  std::vector<pollfd> waits = {{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  for (const Fd& fd : sockets_) waits.push_back({.fd = fd.get(), .events = POLLIN, .revents = 0});
  for (;;) {
    const int patience = hooks_.look() ? kLookMilliseconds : -1;
    if (poll(waits.data(), waits.size(), patience) < 0 && errno != EINTR) return;
    if (waits.front().revents != 0) return;
    for (size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents != 0) AcceptAll(waits[i].fd);
    }
  }
}

void Listener::AcceptAll(int listening) {
  for (;;) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int fd =
        accept4(listening, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        hooks_.make_room();
        pollfd stop = {.fd = stop_.get(), .events = POLLIN, .revents = 0};
        poll(&stop, 1, kPauseMilliseconds);
      }
      return;  // the next poll tells whether a connection waits
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct stat socket {};
    fstat(fd, &socket);
    hooks_.take({.fd = fd, .inode = socket.st_ino, .peer = PeerKey(peer)});
  }
}

}  // namespace paceline::wire
