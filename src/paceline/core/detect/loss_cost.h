#pragma once

// What it costs the job to give a node up: the steps that the world does again, and its restart.
//
// A silent node may be dead, or its network may be back in a second. The master cannot
// know which. This is the ski-rental problem: to wait until the wait has cost as much as giving the
// node up never costs more than twice the best choice (Karlin, Manasse, Rudolph and Sleator,
// "Competitive snoopy caching", 1988). All ranks stand still while
// one is silent, so a second of waiting costs a second.

#include "paceline/base/instant.h"
#include "paceline/core/detect/detector.h"

namespace paceline::core {

struct LossCost {
  Duration redo;     // training time since the newest state that is there without the node
  Duration restart;  // from the decision to the first step, restore included
  Duration total() const { return redo + restart; }
};

// Nothing for a node without a seat in a world that trains: no step is lost with it.
LossCost CostOfLoss(const NodeView& view);

}  // namespace paceline::core
