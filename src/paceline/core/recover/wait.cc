// No world can be formed: there are too few nodes, the devices have too little memory for the
// model, or a checkpoint needs another number of ranks. The job waits for more nodes.

#include "paceline/core/recover/ladder.h"

#include "paceline/base/mark.h"

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
  if (const std::string why = view.WhyTooSmall(); !why.empty()) {
    MARK("waits for devices that hold the model");
    answer.reason =
        (gone == nullptr ? std::string("nodes are missing") : gone->name + " " + gone->reason) +
        ", no spare is there, and the devices that are left are too few: " + why;
    answer.waiting_for = "waits for more devices: " + why;
    return answer;
  }
  if (const uint32_t ranks = view.state.RanksFixed(); ranks > 0) {
    MARK("waits for the number of ranks that own parameters");
    const std::string why = ", because each rank has parameters of its own, so that only " +
                            std::to_string(ranks) + " ranks can go on from a checkpoint";
    answer.reason += why;
    answer.waiting_for += why;
  }
  return answer;
}

}  // namespace paceline::core
