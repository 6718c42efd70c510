#pragma once

// Makes a failing run smaller while the same check fails: cuts off the end, then leaves out kinds
// of faults one by one, then single strikes, then hosts.

#include <cstdint>
#include <string>

#include "paceline/sim/swarm/swarm.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

// One run. Every 20th seed runs twice and must end in the same way.
Outcome RunSeed(uint64_t seed, const Overrides& overrides, std::FILE* log);

struct Shrunk {
  Overrides overrides;
  Violation violation;
  uint32_t run_count = 0;
};

// `first` is the violation of the run to shrink.
Shrunk Shrink(uint64_t seed, const Overrides& overrides, const Violation& first);

}  // namespace paceline::sim
