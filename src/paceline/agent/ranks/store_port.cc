#include "paceline/agent/ranks/store_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr uint32_t kLowestPort = 10'000;
constexpr uint32_t kHighestPort = 65'535;

struct PortRange {
  uint32_t first = kLowestPort;
  uint32_t count = 1;
};

// The larger part outside the ephemeral range; all ports if the range covers everything.
PortRange OutsideEphemeral() {
  uint32_t low = 32'768;
  uint32_t high = 60'999;
  const std::string text = ReadText("/proc/sys/net/ipv4/ip_local_port_range", 64);
  const std::vector<std::string_view> parts = SplitParts(text, " \t\n");
  if (parts.size() == 2) {
    low = ParseWhole<uint32_t>(parts[0]).value_or(low);
    high = ParseWhole<uint32_t>(parts[1]).value_or(high);
  }
  const uint32_t below = low > kLowestPort ? low - kLowestPort : 0;
  const uint32_t above = high < kHighestPort ? kHighestPort - high : 0;
  if (below >= above && below > 0) return {kLowestPort, below};
  if (above > 0) return {high + 1, above};
  return {kLowestPort, kHighestPort - kLowestPort + 1};
}

// A socket bound to the port on all addresses, or a closed one. IPv6 first, because torch's store
// binds a dual-stack socket if it can.
Fd BindPort(uint16_t port) {
  Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.is_open()) {
    const int off = 0;
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
    if (errno == EADDRINUSE) return Fd();
  }
  fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (fd.is_open() &&
      ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  return Fd();
}

}  // namespace

// A socket that was bound without the option, and sets it later, lets others bind that have it.
// Holders of a port bind without it.
void StorePort::Lend() {
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

absl::Status StorePort::HoldExactly(uint16_t port) {
  if (socket_.is_open() && port_ == port) return absl::OkStatus();
  Fd bound = BindPort(port);
  if (!bound.is_open()) return absl::UnavailableError(Concat("port ", port, " is taken"));
  socket_ = std::move(bound);
  port_ = port;
  return absl::OkStatus();
}

absl::Status StorePort::Hold() {
  const PortRange range = OutsideEphemeral();
  for (uint32_t tried = 0; tried < range.count; ++tried) {
    // The stride is coprime to any smaller range, so agents with neighbouring seeds do not try the
    // same ports in turn.
    next_ += 7919;
    const auto port = static_cast<uint16_t>(range.first + next_ % range.count);
    if (port == port_) continue;
    if (Fd bound = BindPort(port); bound.is_open()) {
      socket_ = std::move(bound);
      port_ = port;
      return absl::OkStatus();
    }
  }
  return absl::ResourceExhaustedError("no free TCP port for the ranks' store");
}

}  // namespace paceline::agent
