#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// Hits one node, several, or all of them, as a broken switch does. If no node is left to send
// anything, only the master's own deadline can reveal it.
void LastingSilence(SimWorld& world, Prng& prng) {
  const auto is_eligible = [](const Node& node) {
    return IsRunning(node) && !node.is_twin() && !node.is_silent();
  };
  Node* first = PickNode(world, prng, is_eligible);
  if (first == nullptr) return;
  const uint64_t share = prng.Chance(1, 3) ? 4 : prng.Below(4);  // of 4
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    Node& node = world.node(i);
    const Silence kinds[] = {Silence::kFrozen, Silence::kCutOff, Silence::kMute};
    const Silence kind = kinds[prng.Below(3)];
    const bool is_struck = prng.Chance(share, 4) || &node == first;
    if (is_struck && is_eligible(node)) node.FallSilent(kind);
  }
}

}  // namespace paceline::sim
