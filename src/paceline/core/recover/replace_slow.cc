// A spare takes the seat of the one node that is slow, as NoteSlow (world/slow_node.h) decided
// before the world ended.

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/core/recover/ladder.h"
#include "paceline/core/world/slow_node.h"

namespace paceline::core {

RungAnswer ConsiderReplaceSlow(const LadderView& view) {
  RungAnswer answer;
  const PendingDecision& decision = view.state.decision;
  if (!decision.pending || decision.rung != Rung::kReplaceSlow) return answer;
  // A failure in between is answered as any other; the node may be slow again in the next world.
  if (view.budget.exhausted || view.state.incident.pending) return answer;
  const std::vector<Candidate> others =
      WithoutSlow(view.state, view.candidates, decision.blamed, view.now);
  answer.seats = view.Plan(others);
  if (answer.seats.size() < view.state.last_world.seats.size()) return answer;
  MARK("a spare takes the ranks of a slow node");
  answer.applies = true;
  answer.blamed = decision.blamed;
  answer.reason = view.state.NameOf(decision.blamed) + " is slow";
  return answer;
}

}  // namespace paceline::core
