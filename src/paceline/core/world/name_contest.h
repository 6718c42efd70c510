#pragma once

// Two agents ask for one node name: two hosts got the same name by mistake, or one host has
// rebooted and its old agent is not known to be dead. The registrations look alike, so the rule
// looks for signs of life, not for age:
//
//   - The owner keeps the name until it has been silent for the time that makes a node lost. If its
//     stream is broken, this protects it only from other hosts: a restarted agent on its own host
//     replaces it at once.
//   - Meanwhile another agent is refused and tries again. If the owner is heard for that much
//     longer after the other agent first asked, and still has its stream, both are alive: the other
//     agent is refused for good.
//
// So a rebooted host waits at most until its old agent would be lost. Of two hosts with one name,
// the later one ends with an error.

#include <optional>

#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// A refusal if another agent has the node's name. Remembers the asking agent.
std::optional<RefuseNode> ContestName(Turn& turn, const NodeRegistered& event,
                                      const NodeState& node);

}  // namespace paceline::core
