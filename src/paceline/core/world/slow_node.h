#pragma once

// When a spare takes the ranks of a slow node; docs/failure-model.md has the rule.

#include <vector>

#include "paceline/core/turn.h"
#include "paceline/core/world/rendezvous.h"

namespace paceline::core {

// A node whose ranks were moved because it was slow keeps the ranks of its next world for so long,
// and takes no slow node's ranks.
inline constexpr Duration kMovedOnce = Duration::Seconds(3600);

// The candidates without the slow node, and without spares that were slow themselves a short time
// ago.
std::vector<Candidate> WithoutSlow(const JobState& state, std::vector<Candidate> candidates,
                                   NodeId slow, Instant now);

// Decides to give the ranks of the one slow node to a spare, once that costs no step. Returns true
// if it wrote a record.
bool NoteSlow(Turn& turn);

}  // namespace paceline::core
