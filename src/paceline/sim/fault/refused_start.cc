#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void RefusedStart(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, IsRunning);
  if (node == nullptr) return;
  node->RefuseStarts();
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(20)),
                      [node] { node->ResumeStarts(); });
  KillSomeRank(world, prng);  // so that a new world is needed
}

}  // namespace paceline::sim
