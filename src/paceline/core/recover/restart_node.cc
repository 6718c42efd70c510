// Also a new starter on the blamed node: what its old image of the interpreter holds is dropped.
//
// A fresh image costs the imports anew, ten seconds and more, so it is a suspicion that must be
// earned: the node failed again, in a way that a process brings about by itself. It is tried once
// in a streak of failures; when it did not help, doing it again would only make every restart slow.

#include "paceline/core/recover/ladder.h"

namespace paceline::core {

RungAnswer ConsiderRestartNode(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted || !view.missing.empty()) return answer;
  if (!view.SuspectsImage() || view.ShouldReplaceBlamed()) return answer;
  answer.seats = view.Plan(view.candidates);
  if (answer.seats.size() < view.state.last_world.seats.size()) return answer;
  answer.applies = true;
  answer.blamed = view.state.incident.blamed;
  answer.fresh_node = view.state.incident.blamed;
  answer.reason = view.BlamedText() + ": it starts its processes from a fresh image";
  return answer;
}

}  // namespace paceline::core
