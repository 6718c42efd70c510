#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// Its agents, their ranks and the master live on. If one of them dies, it stays dead until the
// command is started again.
void LauncherDies(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  const bool is_masters = world.options().local_platform || prng.Chance(1, 3);
  world.EndLauncher(*node, is_masters);
  if (prng.Chance(1, 3)) node->KillAgent();
  if (is_masters && prng.Chance(1, 3)) world.master().Crash();
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(30)),
                      [&world, node, is_masters] { world.StartLauncher(*node, is_masters); });
}

}  // namespace paceline::sim
