#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void FreezeAgent(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.agent() != nullptr; });
  if (node == nullptr) return;
  const uint64_t incarnation = node->agent()->incarnation();
  node->agent()->Freeze();
  const Duration time = prng.Chance(1, 2)
                            ? Draw(prng, Duration::Milliseconds(100), Duration::Seconds(2))
                            : Draw(prng, Duration::Seconds(2), Duration::Seconds(30));
  world.queue().After(time, [node, incarnation] {
    AgentHost* agent = node->AgentOf(incarnation);
    if (agent != nullptr && !node->is_frozen()) agent->Thaw();
  });
}

}  // namespace paceline::sim
