#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void StalledStart(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, IsRunning);
  if (node == nullptr) return;
  node->StallStarts();
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(60)),
                      [node] { node->ResumeStarts(); });
  KillSomeRank(world, prng);  // so that a new world is needed
}

}  // namespace paceline::sim
