#include "paceline/cli/own_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "paceline/base/fd.h"

namespace paceline::cli {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList Resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (::getaddrinfo(host.c_str(), service.c_str(), &hints, &found) != 0) found = nullptr;
  return AddressList(found, [](addrinfo* list) {
    if (list != nullptr) ::freeaddrinfo(list);
  });
}

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

}  // namespace

AddressOwner OwnerOf(const std::string& host) {
  const AddressList addresses = Resolve(host, 0);
  if (addresses == nullptr) return AddressOwner::kUnknown;
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) interfaces = nullptr;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(interfaces, [](ifaddrs* list) {
    if (list != nullptr) ::freeifaddrs(list);
  });
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    if (IsLoopback(entry->ai_addr)) return AddressOwner::kLoopback;
    for (const ifaddrs* own = interfaces; own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr != nullptr && AreEqual(own->ifa_addr, entry->ai_addr)) {
        return AddressOwner::kThisHost;
      }
    }
  }
  return AddressOwner::kAnotherHost;
}

bool IsPortTaken(const std::string& host, uint16_t port) {
  const AddressList addresses = Resolve(host, port);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    const Fd fd(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    // As a server would bind: connections of a former server in TIME_WAIT are no obstacle.
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd.is_open() && ::bind(fd.get(), entry->ai_addr, entry->ai_addrlen) != 0 &&
        errno == EADDRINUSE) {
      return true;
    }
  }
  return false;
}

}  // namespace paceline::cli
