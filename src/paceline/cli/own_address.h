#pragma once

// Is an address one of this host's?

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

// True when somebody listens there, as far as binding tells.
bool IsPortTaken(const std::string& host, uint16_t port);

}  // namespace paceline::cli
