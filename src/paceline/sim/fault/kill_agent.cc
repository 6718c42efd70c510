#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void KillAgent(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.agent() != nullptr; });
  if (node != nullptr) node->KillAgent();
}

}  // namespace paceline::sim
