#pragma once

// Worlds that a master of a new term finds, formed by the master before it. One that trains goes
// on.

#include "paceline/core/job_state.h"
#include "paceline/core/turn.h"
#include "paceline/model/node.h"

namespace paceline::core {

// At the start of a master of a new term: a world that does not train yet is ended. The master that
// was replaced may still live, and decide from which step that world begins.
void EndUnbegunWorld(Turn& turn);

// At a registration: the node trains in a world that was formed after the newest record of the
// journal's copy, so the world of the copy is over. That end is no failure, so no budget is
// charged.
void EndForgottenWorld(Turn& turn, const NodeState* node, const NodeReport& report);

// While a world trains that was formed before this master's term: ends it if storage refuses its
// steps and has a checkpoint of a newer world. The master before this one formed that world, and no
// node that this master hears knows it. Checkpoints are ordered by the number of their world, so no
// further step of the older world could get to storage. True: a record was emitted.
bool EndPassedWorld(Turn& turn);

}  // namespace paceline::core
