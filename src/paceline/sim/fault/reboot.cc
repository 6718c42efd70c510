#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// A quick reboot may be over before the node is missed. Then only the boot id shows it.
void Reboot(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  node->PowerOff(true);
  const Duration time = prng.Chance(1, 2)
                            ? Draw(prng, Duration::Milliseconds(100), Duration::Seconds(1))
                            : Draw(prng, Duration::Seconds(1), Duration::Seconds(20));
  world.queue().After(time, [node] { node->PowerOn(); });
}

// Reboots the master's host and so a node, usually that of rank 0. The host's memory and the
// master's volatile state are lost; the journal stays.
void RebootMasterHost(SimWorld& world, Prng& prng) {
  if (!world.master().is_on() || world.master().has_finished()) return;
  const std::optional<World>& formed = world.master().job().state().world;
  Node* node = nullptr;
  if (formed.has_value() && prng.Chance(3, 4)) {
    const std::string name = world.master().job().state().NameOf(formed->seats.front().node);
    node = PickNode(world, prng, [&](const Node& n) { return n.is_on() && n.name() == name; });
  }
  if (node == nullptr) node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  node->PowerOff(true);
  world.HoldMaster();
  world.queue().After(Draw(prng, Duration::Milliseconds(500), Duration::Seconds(20)),
                      [&world, node] {
                        node->PowerOn();
                        world.ReleaseMaster();
                      });
}

}  // namespace paceline::sim
