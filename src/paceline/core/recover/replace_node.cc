// A spare takes the seat, and so the ranks, of a node that is gone or to blame.

#include "paceline/core/recover/ladder.h"

#include <algorithm>

namespace paceline::core {

namespace {

// "node3 takes the seat of node1", for every seat whose node changed.
std::string Changes(const LadderView& view, const std::vector<Candidate>& seats) {
  const auto& last = view.state.last_world.seats;
  std::string text;
  size_t named = 0;
  constexpr size_t kNamedMax = 3;
  for (size_t i = 0; i < last.size() && i < seats.size(); ++i) {
    if (seats[i].node == last[i].node) continue;
    if (++named > kNamedMax) return text + " and so on";
    text += (text.empty() ? "" : ", ") + seats[i].name + " takes the seat of " +
            view.state.NameOf(last[i].node);
  }
  return text;
}

}  // namespace

RungAnswer ConsiderReplaceNode(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted) return answer;
  const auto& last = view.state.last_world.seats;
  if (!view.missing.empty()) {
    answer.seats = view.Plan(view.candidates);
    if (answer.seats.empty() || answer.seats.size() < last.size()) return answer;
    answer.blamed = view.missing.front();
    const NodeState* gone = view.state.Find(view.missing.front());
    answer.reason =
        gone->name + " " +
        (gone->status == NodeState::Status::kSpare ? "was not connected" : gone->reason) + ": " +
        Changes(view, answer.seats);
  } else {
    if (view.blamed_failures < 2 || !view.CanReplaceBlamed()) return answer;
    answer.seats = view.PlanWithoutBlamed();
    answer.blamed = view.state.incident.blamed;
    answer.reason = view.BlamedText() + ": " + Changes(view, answer.seats);
  }
  answer.applies = true;
  return answer;
}

}  // namespace paceline::core
