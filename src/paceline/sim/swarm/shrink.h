#pragma once

// Makes a failing run smaller and keeps its failure: first the end is cut off, then kinds of faults
// are left out one at a time, then single strikes, then hosts.

#include <cstdint>
#include <string>

#include "paceline/sim/swarm/swarm.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

// One run; every 20th seed runs twice and must end alike.
Outcome RunSeed(uint64_t seed, const Wishes& wishes, std::FILE* log);

struct Shrunk {
  Wishes wishes;
  Violation violation;
  uint32_t run_count = 0;
};

// `first` is the violation of the run that is to be made smaller.
Shrunk Shrink(uint64_t seed, const Wishes& wishes, const Violation& first);

}  // namespace paceline::sim
