#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void SecondAgent(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, IsRunning);
  if (node == nullptr || node->is_twin()) return;
  Node& twin = world.AddNode(node->name());
  twin.MakeTwin();
  twin.PowerOn();
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(10)), [&twin, node] {
    twin.PowerOff(false);
    node->Restart();  // in case it gave way, its user starts it again
  });
}

}  // namespace paceline::sim
