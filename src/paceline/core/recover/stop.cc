// The budget is exhausted: stop, and tell the user.

#include "paceline/core/recover/ladder.h"

#include "paceline/base/mark.h"

namespace paceline::core {

RungAnswer ConsiderStop(const LadderView& view) {
  RungAnswer answer;
  if (!view.budget.exhausted) return answer;
  MARK("ladder exhausted");
  answer.applies = true;
  if (view.state.incident.has_blamed) answer.blamed = view.state.incident.blamed;
  answer.reason = view.budget.reason;
  return answer;
}

}  // namespace paceline::core
