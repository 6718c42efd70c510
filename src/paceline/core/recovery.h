#pragma once

// From "this world cannot go on" to the next world. State-driven: called after every event, it does
// what the state asks for, once, and says whether it recorded anything.

#include <vector>

#include "paceline/core/turn.h"
#include "paceline/core/world/rendezvous.h"

namespace paceline::core {

// Ends a world that an incident or a planned growth has doomed.
bool EndDoomedWorld(Turn& turn);

// Forms the first world or the next one, or records why not.
bool FormWorld(Turn& turn);

// Nodes that could be seated now, in order of id.
std::vector<Candidate> Candidates(Turn& turn);

}  // namespace paceline::core
