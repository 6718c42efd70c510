#pragma once

// Checks the end state of a world of leases; lease_world.h has the invariants.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/data/lease/lease_book.h"
#include "paceline/sim/lease/lease_worker.h"

namespace paceline::sim {

struct LeaseEnd {
  const std::vector<LeaseFact>& journal;
  const std::vector<LeaseWorker>& workers;
  uint64_t ordinals = 0;
  uint64_t poisoned = 0;  // the ordinal that kills or fails; a too large number: none
  bool follows = false;   // checkpoints
  bool is_even = false;   // equal shares
};

// The first violation as one sentence; empty if there is none.
std::string JudgeLeases(const LeaseEnd& end);

}  // namespace paceline::sim
