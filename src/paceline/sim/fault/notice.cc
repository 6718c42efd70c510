#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// The node is back later, as another host of that name.
void TakeAway(SimWorld& world, Prng& prng) {
  const core::JobState& state = world.master().job().state();
  Node* node = PickNode(world, prng, [&state](const Node& n) {
    const core::NodeState* known = state.Find(n.name());
    return n.is_on() && !n.is_twin() && known != nullptr && known->IsMember();
  });
  if (node == nullptr) return;
  const Duration left = Draw(prng, Duration(), Duration::Seconds(30));
  world.GiveNotice(*node, left);
  world.queue().After(left + Draw(prng, Duration::Milliseconds(100), Duration::Seconds(20)),
                      [node] { node->PowerOn(); });
}

}  // namespace paceline::sim
