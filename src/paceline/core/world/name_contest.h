#pragma once

// Two agents ask for one node name: two hosts were given the same one by mistake, or one host has
// come back and its old agent is not known to be gone yet. From a registration alone the two look
// alike, so the rule asks for life, not for age:
//
//   - Who spoke for the node keeps its name until it has been silent for the time that makes a node
//     lost. Over a broken stream this protects it from other hosts only: an agent that was started
//     again on its own host takes its place at once.
//   - Another agent is refused meanwhile, and tries again. When the first one has been heard that
//     much longer since the other one first asked, and still has its stream, both are alive: the
//     other one is refused for good.
//
// So a host that was rebooted waits at most until its old agent would be lost, and two hosts under
// one name do not take the place from each other: the later one ends with an error.

#include <optional>

#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// A refusal, when another agent has the name of that node. Remembers who asked.
std::optional<RefuseNode> ContestName(Turn& turn, const NodeRegistered& event,
                                      const NodeState& node);

}  // namespace paceline::core
