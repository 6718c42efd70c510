#include "paceline/core/detect/loss_cost.h"

#include <algorithm>

namespace paceline::core {

LossCost CostOfLoss(const NodeView& view) {
  const JobState& state = view.state;
  if (state.phase != Phase::kRunning || !state.IsSeated(view.node.id)) return {};
  // A new world continues from this world's start or from a later save: by the Checkpointer, or by
  // the script if it reported one.
  const Watch& watch = view.watch;
  Instant restorable_at = std::max(state.world_since, watch.saved_at);
  if (state.has_resumed) restorable_at = std::max(restorable_at, watch.filed_at);
  if (state.checkpoints.committed.has_value()) {
    restorable_at = std::max(restorable_at, state.checkpoints.committed_at);
  }
  const auto in_memory = watch.checkpoints.SavedAtWithout(view.node.id, *state.world);
  if (in_memory.has_value()) restorable_at = std::max(restorable_at, *in_memory);
  return {.redo = std::max(Duration(), view.link.last_heard - restorable_at),
          .restart = watch.restart_took};
}

}  // namespace paceline::core
