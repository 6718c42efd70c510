// Below the minimum: hold until enough nodes are there.

#include "paceline/core/recover/ladder.h"

namespace paceline::core {

RungAnswer ConsiderWait(const LadderView& view) {
  RungAnswer answer;
  if (view.budget.exhausted) return answer;
  const WorldBounds bounds = view.bounds();
  uint32_t needed = bounds.nodes_min;
  while (WorldSize(bounds, needed) == 0 && needed < bounds.nodes_max) ++needed;
  const size_t there = view.candidates.size();
  const size_t lacking = needed > there ? needed - there : 1;
  answer.applies = true;
  if (!view.missing.empty()) answer.blamed = view.missing.front();
  const std::string minimum = "the minimum of " + std::to_string(needed);
  const NodeState* gone = view.missing.empty() ? nullptr : view.state.Find(view.missing.front());
  answer.reason = gone == nullptr ? std::to_string(there) + " of " + minimum + " nodes are left"
                                  : gone->name + " " + gone->reason + ", no spare is there, and " +
                                        minimum + " nodes leaves no room to shrink";
  answer.waiting_for = "waits for " + std::to_string(lacking) + " more " +
                       (lacking == 1 ? "node" : "nodes") + ": " + std::to_string(there) +
                       " of at least " + std::to_string(needed) +
                       (there == 1 ? " is here" : " are here");
  return answer;
}

}  // namespace paceline::core
