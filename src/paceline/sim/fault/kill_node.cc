#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void KillNode(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  node->PowerOff(!world.options().local_platform);
  if (prng.Chance(1, 3)) return;  // it stays off until the end
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(30)),
                      [node] { node->PowerOn(); });
}

}  // namespace paceline::sim
