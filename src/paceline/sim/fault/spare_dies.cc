#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void SpareDies(SimWorld& world, Prng& prng) {
  const core::JobState& state = world.master().job().state();
  Node* node = PickNode(world, prng, [&state](const Node& n) {
    for (const auto& [id, member] : state.nodes) {
      if (member.name == n.name()) {
        return n.is_on() && member.status == core::NodeState::Status::kSpare;
      }
    }
    return false;
  });
  if (node == nullptr) return;
  node->PowerOff(!world.options().local_platform);
  world.queue().After(Draw(prng, Duration::Milliseconds(500), Duration::Seconds(20)),
                      [node] { node->PowerOn(); });
}

}  // namespace paceline::sim
