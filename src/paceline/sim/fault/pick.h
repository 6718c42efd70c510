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

// A host for a fault that begins with its boot and stays, as somebody has to repair it: one that
// was never on, or one that is. Null as well if the run has such a host: at most one of a run, so
// that the job can still have its minimum.
inline Node* PickToBreak(SimWorld& world, Prng& prng) {
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    if (world.node(i).is_bad() || world.node(i).will_have_dead_port()) return nullptr;
  }
  Node* node = PickNode(
      world, prng, [](const Node& n) { return !n.is_on() && n.boot_count() == 0 && !n.is_twin(); });
  if (node != nullptr || world.options().local_platform) return node;
  return PickNode(world, prng, [](const Node& n) { return n.is_on(); });
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

// Boots a host that PickToBreak chose. One that is on reboots.
inline void BootBroken(SimWorld& world, Prng& prng, Node* node) {
  if (!node->is_on()) return node->PowerOn();
  node->PowerOff(true);
  world.queue().After(Draw(prng, Duration::Milliseconds(100), Duration::Seconds(10)),
                      [node] { node->PowerOn(); });
}

}  // namespace paceline::sim
