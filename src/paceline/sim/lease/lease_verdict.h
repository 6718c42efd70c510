#pragma once

// What a world of leases has to leave behind; lease_world.h has the invariants.

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
  uint64_t poisoned = 0;  // the ordinal that kills or fails; none has that number: there is none
  bool follows = false;   // checkpoints
  bool is_even = false;   // equal shares
};

// What is wrong, in one sentence; empty when nothing is.
std::string JudgeLeases(const LeaseEnd& end);

}  // namespace paceline::sim
