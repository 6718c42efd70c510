#pragma once

// Holds one free TCP port for the next world's store.
//
// A port number that was free a moment ago may be taken when rank 0 binds it. So the agent binds it
// itself, without listening, outside the kernel's ephemeral range (no outgoing connection can be
// given it), and lets go just before rank 0 starts. What is left is the instant between the two
// and another program that wants that very number: the rank then says "port taken" and a new world
// is made with another one.

#include <cstdint>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

class StorePort {
 public:
  // `seed` spreads the agents of one host over the range.
  explicit StorePort(uint64_t seed) : next_(seed) {}

  // Binds a fresh port, never the one held before. RESOURCE_EXHAUSTED when all are taken.
  absl::Status Hold();
  void Release() { socket_.Close(); }
  // The port stays held, and a socket with SO_REUSEADDR may listen there all the same: no instant
  // is left. For programs of ours; what a script's store sets is not known.
  void Lend();

  // 0 when nothing is held.
  uint16_t port() const { return socket_.is_open() ? port_ : 0; }

 private:
  uint64_t next_;
  uint16_t port_ = 0;
  Fd socket_;
};

}  // namespace paceline::agent
