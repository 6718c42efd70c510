// Masters of several terms: the host of one is lost, or only seems to be.

#include "paceline/base/mark.h"
#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {
namespace {

bool CanBeReplaced(SimWorld& world) {
  return world.master().is_on() && !world.master().has_finished();
}

}  // namespace

// Sometimes a node was on the same host, and its memory is gone, too.
void MasterHostLost(SimWorld& world, Prng& prng) {
  if (!CanBeReplaced(world)) return;
  if (prng.Chance(1, 3)) {
    Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
    if (node != nullptr) node->PowerOff(true);
    world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(30)), [node] {
      if (node != nullptr) node->PowerOn();
    });
  }
  world.LoseMaster(Draw(prng, Duration::Milliseconds(100), Duration::Seconds(3)));
}

void OldMasterReturns(SimWorld& world, Prng& prng) {
  if (!CanBeReplaced(world) || world.master().is_succeeding()) return;
  const Duration pause = Draw(prng, Duration::Milliseconds(100), Duration::Seconds(3));
  const Duration away = Draw(prng, Duration::Milliseconds(100), Duration::Seconds(20));
  const Duration back = Draw(prng, Duration::Milliseconds(500), Duration::Seconds(10));
  world.MisplaceMaster(pause, away, back);
}

// All of them, in one case of four.
void LostCopies(SimWorld& world, Prng& prng) {
  const bool are_all = prng.Chance(1, 4);
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    AgentHost* agent = world.node(i).agent();
    if (agent == nullptr || !agent->has_copy()) continue;
    if (!are_all && prng.Chance(1, 2)) continue;
    MARK("a node loses its copy of the journal");
    agent->DropCopy();
  }
}

}  // namespace paceline::sim
