#pragma once

// Whether an address belongs to this host.

#include <chrono>
#include <cstdint>
#include <string>

namespace paceline::cli {

enum class AddressOwner {
  kLoopback,  // this host, and other hosts cannot reach it
  kThisHost,
  kAnotherHost,
  kUnknown,  // the name does not resolve
};
AddressOwner OwnerOf(const std::string& host);

// As OwnerOf, but waits for a name that does not resolve yet: a cluster may publish a pod's name
// only after the pod has started. Calls `tell` at once and again from time to time. Returns
// kUnknown if the name does not resolve within `patience`.
AddressOwner AwaitOwner(const std::string& host, std::chrono::seconds patience,
                        void (*tell)(const std::string& text));

// Whether the port is taken, found out by binding it.
bool IsPortTaken(const std::string& host, uint16_t port);

// The host part of an address that listens on every address of this host: "[::]", which includes
// IPv4, if other hosts can reach this one by IPv6, else "0.0.0.0".
std::string EveryAddress();

}  // namespace paceline::cli
