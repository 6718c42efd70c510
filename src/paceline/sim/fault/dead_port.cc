#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// A host that is in the job reboots, because only hosts without ranks are tested.
void DeadPort(SimWorld& world, Prng& prng) {
  Node* node = PickToBreak(world, prng);
  if (node == nullptr) return;
  node->KillPortAtBoot();
  BootBroken(world, prng, node);
}

}  // namespace paceline::sim
