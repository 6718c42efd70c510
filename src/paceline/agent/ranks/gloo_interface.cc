#include "paceline/agent/ranks/gloo_interface.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "paceline/base/fd.h"
#include "paceline/base/host_text.h"
#include "paceline/wire/client/resolve.h"

namespace paceline::agent {
namespace {

socklen_t SizeOf(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// "" if it is no IP address.
std::string NumberOf(const sockaddr* address) {
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return "";
  char text[NI_MAXHOST];
  const int failed =
      ::getnameinfo(address, SizeOf(address), text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text : "";
}

bool IsLoopbackNumber(const std::string& number) {
  return number.starts_with("127.") || number == "::1";
}

bool CanBind(const addrinfo& entry) {
  const Fd fd(::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.is_open() && ::bind(fd.get(), entry.ai_addr, entry.ai_addrlen) == 0;
}

}  // namespace

std::string GlooChoice(const std::string& host_name) {
  const wire::AddressList found = wire::Resolve(host_name, "0", {.ai_socktype = SOCK_STREAM});
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    if (CanBind(*entry)) return NumberOf(entry->ai_addr);
  }
  return "";
}

std::string GlooInterface(const std::string& address, const std::string& host_name) {
  const bool is_one_host = IsLoopbackNumber(address);
  const std::string choice = GlooChoice(host_name);
  const bool has_choice = !choice.empty() && (is_one_host || !IsLoopbackNumber(choice));
  const bool has_default = choice.empty() && is_one_host && LoopbackHost() == "127.0.0.1";
  if (has_choice || has_default) return "";
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(interfaces, ::freeifaddrs);
  for (const ifaddrs* own = interfaces; own != nullptr; own = own->ifa_next) {
    if (own->ifa_addr != nullptr && NumberOf(own->ifa_addr) == address) return own->ifa_name;
  }
  return "";
}

}  // namespace paceline::agent
