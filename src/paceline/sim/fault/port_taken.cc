#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void PortTaken(SimWorld& world, Prng& prng) {
  world.SetPortTakings(static_cast<uint32_t>(prng.Between(1, 4)));
  const RankProcess* process = PickProcess(world, prng);  // so that a new world is needed
  if (process == nullptr) return;
  ExitCause cause;
  cause.kind = ExitCause::Kind::kSignaled;
  cause.code = 9;
  cause.fingerprint = cause.headline = "signal 9";
  world.node(process->node).EndRank(process->pid, cause);
}

}  // namespace paceline::sim
