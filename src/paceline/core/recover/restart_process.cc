// Same nodes, same ranks, new processes: cures most failures and moves nobody.

#include "paceline/core/recover/ladder.h"

namespace paceline::core {

RungAnswer ConsiderRestartProcess(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted || !view.missing.empty() || view.blamed_failures > 1) return answer;
  answer.seats = PlanSeats(view.state.last_world.seats, view.candidates, view.bounds());
  if (answer.seats.size() < view.state.last_world.seats.size()) return answer;
  answer.applies = true;
  if (view.blamed_failures > 0) {
    answer.blamed = view.state.incident.blamed;
    answer.reason = "first failure without progress on " + view.BlamedName() +
                    ": the same nodes go on with new processes";
  } else if (view.state.port_taken_count > 0) {
    answer.reason = "the store's port was taken: the same nodes try another one";
  } else {
    answer.reason = "no node is missing or to blame: the same nodes go on with new processes";
  }
  const size_t joined = answer.seats.size() - view.state.last_world.seats.size();
  if (joined > 0) {
    answer.reason +=
        ", and " + std::to_string(joined) + " more " + (joined == 1 ? "node joins" : "nodes join");
  }
  return answer;
}

}  // namespace paceline::core
