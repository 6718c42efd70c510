// The world goes to the smaller size that a user chose. Also the answer to a failure while the job
// waits to shrink: the world is formed anew anyway.

#include "paceline/core/recover/ladder.h"

#include "paceline/base/mark.h"
#include "paceline/base/text.h"

namespace paceline::core {

RungAnswer ConsiderResize(const LadderView& view) {
  RungAnswer answer;
  const WorldBounds bounds = view.bounds();
  const size_t before = view.state.last_world.seats.size();
  if (view.budget.exhausted || before <= bounds.nodes_max) return answer;
  answer.seats = view.Plan(view.candidates);
  if (answer.seats.empty() || answer.seats.size() < WorldSize(bounds, bounds.nodes_max)) {
    return answer;  // nodes are missing even for the smaller size
  }
  MARK("world shrinks to the chosen size");
  answer.applies = true;
  if (view.blamed_failures > 0) answer.blamed = view.state.incident.blamed;
  const std::string size = Counted(answer.seats.size(), "node") + " instead of " +
                           std::to_string(before) + ", as requested";
  if (view.blamed_failures > 0) {
    answer.reason = "a rank on " + view.BlamedName() + " failed: go on with " + size;
  } else if (!view.missing.empty()) {
    const NodeState* gone = view.state.Find(view.missing.front());
    answer.reason = gone->name + " " + gone->reason + ": go on with " + size;
  } else {
    answer.reason = "go on with " + size;
  }
  return answer;
}

}  // namespace paceline::core
