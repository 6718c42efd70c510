// Continue with fewer nodes, at or above the minimum.

#include "paceline/core/recover/ladder.h"

#include "paceline/base/mark.h"

namespace paceline::core {

RungAnswer ConsiderShrink(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted) return answer;
  const size_t before = view.state.last_world.seats.size();
  answer.seats = view.Plan(view.candidates);
  if (answer.seats.empty() || answer.seats.size() >= before) return answer;
  MARK("world shrinks");
  answer.applies = true;
  if (!view.missing.empty()) answer.blamed = view.missing.front();
  answer.not_before = view.state.phase_since + view.state.spec.timers.shrink_after;
  const NodeState* gone = view.missing.empty() ? nullptr : view.state.Find(view.missing.front());
  answer.reason =
      (gone == nullptr ? std::string("a node is missing") : gone->name + " " + gone->reason) +
      " and no spare is there: go on with " + std::to_string(answer.seats.size()) + " instead of " +
      std::to_string(before) + " nodes";
  return answer;
}

}  // namespace paceline::core
