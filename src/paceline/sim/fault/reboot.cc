#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// A quick one may be over before anybody has missed the node: only the boot id tells.
void Reboot(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  node->PowerOff(true);
  const Duration time = prng.Chance(1, 2)
                            ? Draw(prng, Duration::Milliseconds(100), Duration::Seconds(1))
                            : Draw(prng, Duration::Seconds(1), Duration::Seconds(20));
  world.queue().After(time, [node] { node->PowerOn(); });
}

}  // namespace paceline::sim
