#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void LeaveNode(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.agent() != nullptr; });
  if (node == nullptr) return;
  core::LeaveAsked asked;
  asked.why = "Ctrl-C on its host";
  asked.grace = Draw(prng, Duration(), Duration::Seconds(5));
  asked.exit_code = 130;
  asked.force = prng.Chance(1, 4);
  node->agent()->AskToLeave(asked);
  // The agent is started again later.
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(20)),
                      [node] { node->Restart(); });
}

}  // namespace paceline::sim
