#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void PortTaken(SimWorld& world, Prng& prng) {
  world.SetPortTakings(static_cast<uint32_t>(prng.Between(1, 4)));
  KillSomeRank(world, prng);  // so that a new world is needed
}

}  // namespace paceline::sim
