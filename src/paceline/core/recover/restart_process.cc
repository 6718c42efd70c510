// Same nodes, same ranks, new processes. Cures most failures and moves no rank. Also used if no
// wider rung would help: there is no spare, and no reason to suspect the starter.

#include "paceline/core/memory_told.h"
#include "paceline/core/recover/ladder.h"

namespace paceline::core {

namespace {

// What is there under the node's name now. A platform that makes nodes anew numbers them.
std::string HowBack(const NodeState& node) {
  const Departure& gone = *node.departure;
  if (gone.new_incarnation > 0) {
    return "incarnation " + std::to_string(gone.new_incarnation) + " of " + node.name +
           " took its place";
  }
  if (gone.old_address != node.address) return "a host at " + node.address + " took its place";
  return "came back";
}

// "n2 was rebooted, and came back", for each node of the last world that went and is here again;
// "" if none went. A world of the same nodes may have new hosts.
std::string WhoCameBack(const LadderView& view) {
  constexpr size_t kNamedMax = 3;
  std::string text;
  size_t named = 0;
  for (const Seat& seat : view.state.last_world.seats) {
    const NodeState* node = view.state.Find(seat.node);
    if (!node->departure.has_value() || !node->departure->is_back) continue;
    if (++named > kNamedMax) return text + "; and so on";
    text += (text.empty() ? "" : "; ") + node->name + " " + node->departure->how + ", and " +
            HowBack(*node);
  }
  return text;
}

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
  if (const std::string more = MoreMemoryText(view.state); !more.empty()) return more;
  if (view.state.port_taken_count > 0) return "the store's port was taken";
  const std::string came_back = WhoCameBack(view);
  return came_back.empty() ? "no node is missing or to blame" : came_back;
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
