#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void CrashMaster(SimWorld& world, Prng& prng) {
  world.master().Crash();
  // Sometimes it dies again as soon as it is back.
  if (!prng.Chance(1, 4)) return;
  world.queue().After(Draw(prng, Duration::Milliseconds(50), Duration::Seconds(1)),
                      [&world] { world.master().Crash(); });
}

void CrashMasterAtRecord(SimWorld& world, Prng& prng) {
  world.master().CrashAfterRecords(static_cast<uint64_t>(prng.Between(1, 12)));
}

void FreezeMaster(SimWorld& world, Prng& prng) {
  const uint64_t incarnation = world.master().incarnation();
  world.master().Freeze();
  world.queue().After(Draw(prng, Duration::Milliseconds(50), Duration::Seconds(15)),
                      [&world, incarnation] {
                        if (world.master().incarnation() == incarnation) world.master().Thaw();
                      });
}

void ClockStep(SimWorld& world, Prng& prng) {
  const int64_t seconds = prng.Chance(1, 2) ? prng.Between(-5, 5) : prng.Between(-86'400, 86'400);
  world.master().StepClock(Duration::Seconds(seconds));
  world.master().Crash();
}

void FullDisk(SimWorld& world, Prng& prng) {
  world.master().FillDisk();
  world.queue().After(Draw(prng, Duration::Milliseconds(500), Duration::Seconds(20)),
                      [&world] { world.master().FreeDisk(); });
}

}  // namespace paceline::sim
