#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void ScriptBug(SimWorld& world, Prng& prng) {
  int64_t step = world.workload().step_max() + prng.Between(2, 40);
  const int64_t every = world.options().checkpoint_every;
  if (every > 1 && step % every == 0) ++step;  // else the next attempt would start behind the bug
  world.workload().PlantBug(step);
}

}  // namespace paceline::sim
