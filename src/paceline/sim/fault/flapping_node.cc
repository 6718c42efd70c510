#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void FlappingNode(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, IsRunning);
  if (node == nullptr) return;
  Duration at;
  const int64_t times = prng.Between(2, 8);
  const bool by_network = prng.Chance(1, 2);
  for (int64_t i = 0; i < times; ++i) {
    const Duration down = Draw(prng, Duration::Milliseconds(300), Duration::Seconds(3));
    const Duration up = Draw(prng, Duration::Milliseconds(100), Duration::Seconds(3));
    world.queue().After(at, [&world, node, by_network] {
      if (world.is_healed()) return;
      if (by_network) {
        world.network().Cut(node->host(), kMasterHost);
      } else {
        node->Freeze();
      }
    });
    world.queue().After(at + down, [&world, node, by_network] {
      if (by_network) {
        world.network().Mend(node->host(), kMasterHost);
      } else {
        node->Thaw();
      }
    });
    at += down + up;
  }
}

}  // namespace paceline::sim
