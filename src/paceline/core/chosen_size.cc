#include "paceline/core/chosen_size.h"

namespace paceline::core {

bool IsAboveChosen(const JobState& state) {
  return state.world.has_value() && state.world->seats.size() > state.NextBounds().nodes_max;
}

bool HurriesStorage(const JobState& state) {
  if (!IsAboveChosen(state) || state.incident.pending || state.decision.pending) return false;
  return !IsStoredSince(state.checkpoints, state.size.saved_step, state.size.commits);
}

}  // namespace paceline::core
