#pragma once

// Explains the end of a rank by the calls of its node's ranks.

#include <cstdint>

#include "paceline/agent/hang/flight_rings.h"
#include "paceline/model/node.h"

namespace paceline::agent {

// If ranks of this node were in different calls of one group when `failed` ended, adds both calls
// and their lines to the cause. The same mistake has the same fingerprint, whichever rank it ends.
// Only for a rank that ended itself: by an error or by SIGABRT.
void ExplainByCalls(const FlightRings& rings, uint32_t slots, Generation generation, Rank failed,
                    ExitCause* cause);

}  // namespace paceline::agent
