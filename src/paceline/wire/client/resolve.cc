#include "paceline/wire/client/resolve.h"

#include <chrono>
#include <thread>

namespace paceline::wire {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(200);

}  // namespace

AddressList Resolve(const std::string& host, const std::string& service, const addrinfo& hints) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), service.c_str(), &hints, &found) != 0) found = nullptr;
  return AddressList(found, [](addrinfo* list) {
    if (list != nullptr) ::freeaddrinfo(list);
  });
}

void WhileNamesSpread(const std::function<bool()>& look) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!look() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kPause);
}

}  // namespace paceline::wire
