#pragma once

// A server that passes calls on to the master without reading them, for jobs with too many hosts
// for one socket each at the master. All calls of a relay share one connection to the master: for
// gRPC a connection costs far more than a call (ADR 7).
//
// At the end of a job it stays until the master has gone. Hosts that have no other route may be
// between two calls at that moment, and the master waits for them.
//
// A relay requires the same token and certificates as the master, and tells the master in a header
// which nodes the caller's certificate names. It has no state: if it dies, its calls break and
// their callers use another route (route.h).

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

struct RelayOptions {
  std::string listen;  // HOST:PORT; port 0: any
  std::string master;  // host:port
  // The credentials of this host. With TLS the certificate must be a relay's (Enroll with
  // `is_relay`), and the process must have called UseOnlyTls13.
  Credentials credentials;
  // Further callers get RESOURCE_EXHAUSTED and go elsewhere. The limit of one connection to the
  // master is a little higher.
  uint32_t calls_max = 2000;
  // As in MasterServerOptions.
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
  // Returns when no call is open between a caller and the master, and the master does not accept
  // connections any more. A master that ends its job exits when each caller has heard of the end,
  // or has been away for too long.
  void WaitUntilMasterHasGone();

 private:
  class Service;
  std::unique_ptr<Service> service_;
  explicit Relay(std::unique_ptr<Service> service);
};

}  // namespace paceline::wire
