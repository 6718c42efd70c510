#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void FreezeRank(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  if (process == nullptr) return;
  Node& node = world.node(process->node);
  const int32_t pid = process->pid;
  node.FreezeRank(pid);
  world.queue().After(Draw(prng, Duration::Milliseconds(200), Duration::Seconds(20)),
                      [&node, pid] { node.ThawRank(pid); });
}

}  // namespace paceline::sim
