#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// Half of the limit is used before. A leak leaves the node at least half a minute.
void Leak(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  const Duration time = Draw(prng, Duration::Seconds(20), Duration::Seconds(200));
  const int64_t seconds = prng.Between(30, 150);
  if (process == nullptr) return;
  const uint64_t room = world.options().spec.memory_node / 2;
  world.node(process->node)
      .LeakMemory(process->pid, 0, room / static_cast<uint64_t>(seconds), time);
}

// From one moment to the next, a rank needs up to four times the limit.
void NeedMemory(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  const uint64_t times = static_cast<uint64_t>(prng.Between(1, 8));
  if (process == nullptr) return;
  const uint64_t limit = world.options().spec.memory_node;
  world.node(process->node).LeakMemory(process->pid, times * limit / 2, 0, Duration());
}

}  // namespace paceline::sim
