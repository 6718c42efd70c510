#pragma once

// Is an address one of this host's?

#include <chrono>
#include <cstdint>
#include <string>

namespace paceline::cli {

enum class AddressOwner {
  kLoopback,  // this host, and nobody else reaches it
  kThisHost,
  kAnotherHost,
  kUnknown,  // the name does not resolve
};
AddressOwner OwnerOf(const std::string& host);

// The same, but a name that does not resolve is waited for, because a platform may publish a name
// only after what bears it has started. Tells so at once, and now and then again. Returns kUnknown
// after `patience`.
AddressOwner AwaitOwner(const std::string& host, std::chrono::seconds patience,
                        void (*tell)(const std::string& text));

// True when somebody listens there, as far as binding tells.
bool IsPortTaken(const std::string& host, uint16_t port);

}  // namespace paceline::cli
