#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void StopRequest(SimWorld& world, Prng& prng) {
  core::StopRequested stop;
  stop.why = "the user asked for it";
  stop.grace = Draw(prng, Duration(), Duration::Seconds(10));
  stop.exit_code = prng.Chance(1, 2) ? 130 : 143;
  const bool comes_twice = prng.Chance(1, 3);
  world.RequestStop(stop);
  if (!comes_twice) return;
  stop.force = prng.Chance(1, 2);
  world.queue().After(Draw(prng, Duration::Milliseconds(1), Duration::Seconds(3)),
                      [&world, stop] { world.RequestStop(stop); });
}

}  // namespace paceline::sim
