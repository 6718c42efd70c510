// Also a new starter on the blamed node: what its old image of the interpreter holds is dropped.

#include "paceline/core/recover/ladder.h"

namespace paceline::core {

RungAnswer ConsiderRestartNode(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted || !view.missing.empty() || view.blamed_failures < 2) return answer;
  // The same failure twice on one node, or too many of any kind: try another node, if there is one.
  const bool alike = view.state.budget.same_failure_count >= 2;
  const bool often = view.blamed_failures > view.state.spec.budgets.node_restarts;
  if ((alike || often) && view.CanReplaceBlamed()) return answer;
  answer.seats = PlanSeats(view.state.last_world.seats, view.candidates, view.bounds());
  if (answer.seats.size() < view.state.last_world.seats.size()) return answer;
  answer.applies = true;
  answer.blamed = view.state.incident.blamed;
  answer.fresh_node = view.state.incident.blamed;
  answer.reason = view.BlamedName() + " failed " + std::to_string(view.blamed_failures) +
                  " times without progress" + (often ? " and no spare is there" : "") +
                  ": it starts its processes from a fresh image";
  return answer;
}

}  // namespace paceline::core
