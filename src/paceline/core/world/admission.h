#pragma once

// Whether an agent that registers may speak for a node of the job. A refusal has four parts.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// Checks that need no knowledge of the node. False: refused.
bool CheckReport(Turn& turn, const NodeRegistered& event);

// False: refused. `node` is the job's entry for this name, or null.
bool CheckIdentity(Turn& turn, const NodeRegistered& event, const NodeState* node);

}  // namespace paceline::core
