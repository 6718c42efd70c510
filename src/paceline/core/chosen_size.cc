#include "paceline/core/chosen_size.h"

namespace paceline::core {

bool IsAboveChosen(const JobState& state) {
  return state.world.has_value() && state.world->seats.size() > state.NextBounds().nodes_max;
}

bool HurriesStorage(const JobState& state) {
  if (!IsAboveChosen(state) || state.incident.pending || state.decision.pending) return false;
  const auto& committed = state.checkpoints.committed;
  // As WhyFree in world/free_change.h has it.
  const bool is_stored =
      committed.has_value() && (committed->saved.step > state.size.saved_step ||
                                state.checkpoints.commits >= state.size.commits + 2);
  return !is_stored;
}

}  // namespace paceline::core
