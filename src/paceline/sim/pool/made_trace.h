#pragma once

// A trace that is made by chance, from a seed. Its constants were fitted to published averages of
// one production cluster, with the policies `static` and `dlrover` alone: docs/guides/scaling.md.

#include <cstdint>

#include "paceline/sim/pool/trace.h"

namespace paceline::sim {

PoolTrace MadeTrace(uint64_t seed);

}  // namespace paceline::sim
