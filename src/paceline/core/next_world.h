#pragma once

// From a world that cannot continue to the next world. Driven by state: called after every event,
// it does what the state requires, once, and returns whether it emitted a record.

#include <vector>

#include "paceline/core/turn.h"
#include "paceline/core/world/rendezvous.h"

namespace paceline::core {

// Ends a world after an incident, for a planned growth, or because layers move.
bool EndDoomedWorld(Turn& turn);

// Forms the first or the next world, or records why it cannot.
bool FormWorld(Turn& turn);

// The number after all used ones. Only the nodes may know the newest worlds of the last term.
Generation NextInTerm(Turn& turn);

// Nodes that can be seated now, ordered by id.
std::vector<Candidate> Candidates(Turn& turn);

}  // namespace paceline::core
