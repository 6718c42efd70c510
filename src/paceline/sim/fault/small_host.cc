#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void SmallHost(SimWorld& world, Prng& prng) {
  Node* node = PickNode(
      world, prng, [](const Node& n) { return !n.is_on() && n.boot_count() == 0 && !n.is_twin(); });
  if (node == nullptr) return;
  node->MakeSmall();
  node->PowerOn();
}

}  // namespace paceline::sim
