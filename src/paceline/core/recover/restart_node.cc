// As restart_process, and with a new starter on the blamed node, because the old interpreter's
// state may be the cause.
//
// A new starter imports everything again, which takes seconds (torch alone about 3 s). So the rung
// needs evidence: the node failed again, in a way that a process causes by itself. It is tried once
// in a streak of failures. If it did not help, repeating it would only make restarts slow.

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
  answer.reason = view.BlamedText() + ": it starts its processes from a fresh interpreter";
  return answer;
}

}  // namespace paceline::core
