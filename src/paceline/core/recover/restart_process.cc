// Same nodes, same ranks, new processes. Cures most failures and moves no rank. Also used if no
// wider rung would help: there is no spare, and no reason to suspect the starter.

#include "paceline/core/recover/ladder.h"

namespace paceline::core {

namespace {

std::string Why(const LadderView& view) {
  if (view.blamed_failures == 1) {
    return "a rank on " + view.BlamedName() + " failed";
  }
  if (view.blamed_failures > 1) {
    const bool from_outside = view.state.budget.last_fingerprint.empty();
    const bool often = view.blamed_failures > view.state.spec.budgets.node_restarts;
    return view.BlamedText() +
           (from_outside ? ", the last time by a signal from outside"
                         : ", a fresh interpreter did not help") +
           (often ? ", and no spare is there" : "");
  }
  if (view.state.port_taken_count > 0) return "the store's port was taken";
  return "no node is missing or to blame";
}

}  // namespace

RungAnswer ConsiderRestartProcess(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted || !view.missing.empty()) return answer;
  if (view.SuspectsImage() || view.ShouldReplaceBlamed()) return answer;
  answer.seats = view.Plan(view.candidates);
  if (answer.seats.size() < view.state.last_world.seats.size()) return answer;
  answer.applies = true;
  if (view.blamed_failures > 0) answer.blamed = view.state.incident.blamed;
  const bool port = view.blamed_failures == 0 && view.state.port_taken_count > 0;
  answer.reason = Why(view) + (port ? ": the same nodes try another port"
                                    : ": the same nodes go on with new processes");
  const size_t joined = answer.seats.size() - view.state.last_world.seats.size();
  if (joined > 0) {
    answer.reason +=
        ", and " + std::to_string(joined) + " more " + (joined == 1 ? "node joins" : "nodes join");
  }
  return answer;
}

}  // namespace paceline::core
