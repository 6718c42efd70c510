#pragma once

// The cost of giving a node up: the steps that the world repeats, and its restart.
//
// A silent node may be dead, or its network may return in a second; the master cannot know. This is
// the ski-rental problem: waiting until the wait has cost as much as giving up never costs more
// than twice the best choice (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching",
// 1988). All ranks stand still while one is silent, so a second of waiting costs a second.

#include "paceline/base/instant.h"
#include "paceline/core/detect/detector.h"

namespace paceline::core {

struct LossCost {
  Duration redo;     // training time since the newest state that exists without the node
  Duration restart;  // from the decision to the first step, restore included
  Duration total() const { return redo + restart; }
};

// Zero for a node without a seat in a training world: no step is lost with it.
LossCost CostOfLoss(const NodeView& view);

}  // namespace paceline::core
