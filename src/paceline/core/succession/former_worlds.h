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

}  // namespace paceline::core
