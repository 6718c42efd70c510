#pragma once

// Draws a victim. Null if there is none; the fault then does nothing.

#include <csignal>
#include <functional>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/sim/node.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

inline Node* PickNode(SimWorld& world, Prng& prng, const std::function<bool(const Node&)>& wanted) {
  std::vector<Node*> found;
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    if (wanted(world.node(i))) found.push_back(&world.node(i));
  }
  return found.empty() ? nullptr : found[prng.Below(found.size())];
}

inline bool IsRunning(const Node& node) { return node.is_on() && !node.is_frozen(); }

// A living rank of any node that is awake.
inline const RankProcess* PickProcess(SimWorld& world, Prng& prng) {
  std::vector<const RankProcess*> found;
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    if (!IsRunning(world.node(i))) continue;
    for (const auto& [pid, process] : world.node(i).processes()) found.push_back(&process);
  }
  return found.empty() ? nullptr : found[prng.Below(found.size())];
}

inline void KillSomeRank(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  if (process != nullptr) world.node(process->node).EndRank(process->pid, Killed(SIGKILL));
}

inline Duration Draw(Prng& prng, Duration low, Duration high) {
  return Duration::Nanoseconds(prng.Between(low.nanoseconds(), high.nanoseconds()));
}

}  // namespace paceline::sim
