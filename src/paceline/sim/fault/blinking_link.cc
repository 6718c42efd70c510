#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// A loose cable, a switch port or a flapping route: the node loses the master and all other nodes
// at once, for half a second to half a minute, and again soon after.
void BlinkingLink(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  const HostIndex host = node->host();
  std::vector<HostIndex> others = {kMasterHost};
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    if (world.node(i).host() != host) others.push_back(world.node(i).host());
  }
  const auto each = [&world, host, others](void (Network::*change)(HostIndex, HostIndex)) {
    for (const HostIndex other : others) {
      (world.network().*change)(host, other);
      (world.network().*change)(other, host);
    }
    world.workload().Refresh();
  };
  Duration at;
  const int64_t times = prng.Between(1, 5);
  for (int64_t i = 0; i < times; ++i) {
    const Duration down = prng.Chance(2, 3)
                              ? Draw(prng, Duration::Milliseconds(500), Duration::Seconds(4))
                              : Draw(prng, Duration::Seconds(4), Duration::Seconds(30));
    world.queue().After(at, [&world, each, down] {
      if (world.is_healed()) return;
      each(&Network::Cut);
      world.queue().After(down, [&world, each] {
        if (!world.is_healed()) each(&Network::Mend);
      });
    });
    at += down + Draw(prng, Duration::Milliseconds(200), Duration::Seconds(10));
  }
}

}  // namespace paceline::sim
