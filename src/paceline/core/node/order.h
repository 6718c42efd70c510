#pragma once

// How an agent reads the orders of its master.

#include "paceline/model/world.h"

namespace paceline::core {

// Within one generation, later phases of a job win.
int Precedence(Assignment::Kind kind);

// The assignment as the one process of that slot sees it: with its own generation and restarts.
Assignment OrderFor(const Assignment& assignment, const WantedRank& wanted);

}  // namespace paceline::core
