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
  answer.reason = "waits for " + std::to_string(lacking) + " more " +
                  (lacking == 1 ? "node" : "nodes") + ": " + std::to_string(there) +
                  (there == 1 ? " is" : " are") + " there and the minimum is " +
                  std::to_string(needed);
  return answer;
}

}  // namespace paceline::core
