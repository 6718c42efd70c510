#pragma once

// A server that passes calls on, unread, to the master: for jobs of so many hosts that the master
// should not have a socket to each. All calls of a relay share one connection to the master, and
// what gRPC does for a connection costs it far more than what it does for a call (ADR 7).
//
// A relay asks for the same token and certificates as the master, tells the master in a header for
// which nodes the caller's certificate was made, and knows nothing else. It keeps nothing: when it
// dies its calls break, and their callers take another way (route.h).

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

struct RelayOptions {
  std::string listen;  // HOST:PORT; port 0: any
  std::string master;  // host:port
  // Of this host. With TLS the certificate must be a relay's (Enroll with `is_relay`), and the
  // process must have called UseOnlyTls13.
  Credentials credentials;
  // A caller beyond that is refused with RESOURCE_EXHAUSTED and goes elsewhere. The bound of one
  // connection to the master is a little higher.
  uint32_t calls_max = 2000;
  // As of the master, MasterServerOptions.
  uint32_t unproven_per_peer_max = 0;
};

class Relay {
 public:
  // ALREADY_EXISTS: the port is taken, or the address is not of this host.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(RelayOptions options);
  // Breaks every call.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  uint32_t port() const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
  explicit Relay(std::unique_ptr<Service> service);
};

}  // namespace paceline::wire
