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

// As OwnerOf, but waits for a name that does not resolve yet: a cluster may publish a pod's name
// only after the pod has started. Calls `tell` at once and again from time to time. Returns
// kUnknown when the name has not resolved within `patience`.
AddressOwner AwaitOwner(const std::string& host, std::chrono::seconds patience,
                        void (*tell)(const std::string& text));

// True when somebody listens there, as far as binding tells.
bool IsPortTaken(const std::string& host, uint16_t port);

}  // namespace paceline::cli
