#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void FreezeNode(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, IsRunning);
  if (node == nullptr) return;
  node->Freeze();
  const Duration time = prng.Chance(1, 2)
                            ? Draw(prng, Duration::Milliseconds(200), Duration::Seconds(2))
                            : Draw(prng, Duration::Seconds(2), Duration::Seconds(30));
  world.queue().After(time, [node] { node->Thaw(); });
}

}  // namespace paceline::sim
