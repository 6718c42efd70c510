#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// The host stays broken, as somebody has to repair it. At most one of a run, so that the job can
// still have its minimum.
void BadNode(SimWorld& world, Prng& prng) {
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    if (world.node(i).is_bad() || world.node(i).will_have_dead_port()) return;
  }
  Node* node = PickNode(
      world, prng, [](const Node& n) { return !n.is_on() && n.boot_count() == 0 && !n.is_twin(); });
  const bool is_new = node != nullptr;
  // Only another boot is checked again.
  const bool has_hosts = !world.options().local_platform;
  if (!is_new && has_hosts) node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  node->Break(prng.Chance(1, 2));
  if (is_new) return node->PowerOn();
  node->PowerOff(true);
  world.queue().After(Draw(prng, Duration::Milliseconds(100), Duration::Seconds(10)),
                      [node] { node->PowerOn(); });
}

}  // namespace paceline::sim
