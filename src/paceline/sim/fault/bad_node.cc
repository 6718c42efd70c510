#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// A host that is on reboots, because only another boot is checked again.
void BadNode(SimWorld& world, Prng& prng) {
  Node* node = PickToBreak(world, prng);
  if (node == nullptr) return;
  node->Break(prng.Chance(1, 2));
  BootBroken(world, prng, node);
}

}  // namespace paceline::sim
