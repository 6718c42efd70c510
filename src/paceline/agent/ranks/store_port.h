#pragma once

// Holds one free TCP port for the next world's store.
//
// A port that is free now may be taken when rank 0 binds it. So the agent binds it, without
// listening, outside the kernel's ephemeral range (outgoing connections never get it), and releases
// it just before rank 0 starts. In the short time between, another program may still bind it: the
// rank then reports "port taken", and a new world uses another port.

#include <cstdint>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

class StorePort {
 public:
  // `seed` spreads the agents of one host over the range.
  explicit StorePort(uint64_t seed) : next_(seed) {}

  // Binds a new port, never the one held before. RESOURCE_EXHAUSTED: all are taken.
  absl::Status Hold();
  // Binds this port. UNAVAILABLE: another socket has it.
  absl::Status HoldExactly(uint16_t port);
  void Release() { socket_.Close(); }
  // Keeps the port but allows a socket with SO_REUSEADDR to listen on it, so the port is never
  // free. For our own programs; a script's store may not set that option.
  void Lend();

  // 0 if none is held.
  uint16_t port() const { return socket_.is_open() ? port_ : 0; }

 private:
  uint64_t next_;
  uint16_t port_ = 0;
  Fd socket_;
};

}  // namespace paceline::agent
