#include "paceline/cli/run/own_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/run/wait_teller.h"
#include "paceline/wire/client/resolve.h"

namespace paceline::cli {
namespace {

constexpr auto kNamePause = std::chrono::milliseconds(200);
constexpr addrinfo kStream = {.ai_socktype = SOCK_STREAM};

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

bool AreEqual(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

using InterfaceList = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

InterfaceList Interfaces() {
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) interfaces = nullptr;
  return InterfaceList(interfaces, [](ifaddrs* list) {
    if (list != nullptr) ::freeifaddrs(list);
  });
}

}  // namespace

std::string EveryAddress() {
  const InterfaceList interfaces = Interfaces();
  for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
    if (own->ifa_addr == nullptr || own->ifa_addr->sa_family != AF_INET6) continue;
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(own->ifa_addr)->sin6_addr;
    if (!IN6_IS_ADDR_LOOPBACK(&address) && !IN6_IS_ADDR_LINKLOCAL(&address)) return "[::]";
  }
  return "0.0.0.0";
}

AddressOwner OwnerOf(const std::string& host) {
  const wire::AddressList addresses = wire::Resolve(host, "0", kStream);
  if (addresses == nullptr) return AddressOwner::kUnknown;
  const InterfaceList interfaces = Interfaces();
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    if (IsLoopback(entry->ai_addr)) return AddressOwner::kLoopback;
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr != nullptr && AreEqual(own->ifa_addr, entry->ai_addr)) {
        return AddressOwner::kThisHost;
      }
    }
  }
  return AddressOwner::kAnotherHost;
}

AddressOwner AwaitOwner(const std::string& host, std::chrono::seconds patience,
                        void (*tell)(const std::string& text)) {
  const auto until = std::chrono::steady_clock::now() + patience;
  WaitTeller teller;
  for (bool has_told = false;; std::this_thread::sleep_for(kNamePause)) {
    const AddressOwner owner = OwnerOf(host);
    const bool is_over = std::chrono::steady_clock::now() >= until;
    if (owner != AddressOwner::kUnknown || is_over) return owner;
    if (!has_told) {
      tell(Concat("waiting for the host name ", Visible(host), ", which does not resolve yet …"));
    }
    has_told = true;
    if (teller.Take(agent::MonotonicNow(), /*is_waiting=*/true)) {
      tell(Concat("still waiting: the host name ", Visible(host),
                  " does not resolve; is it spelt as intended?"));
    }
  }
}

bool IsPortTaken(const std::string& host, uint16_t port) {
  const wire::AddressList addresses = wire::Resolve(host, std::to_string(port), kStream);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    const Fd fd(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    // Binds as a server does, so that connections of an earlier server in TIME_WAIT do not count.
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd.is_open() && ::bind(fd.get(), entry->ai_addr, entry->ai_addrlen) != 0 &&
        errno == EADDRINUSE) {
      return true;
    }
  }
  return false;
}

}  // namespace paceline::cli
