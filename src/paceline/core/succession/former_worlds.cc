#include "paceline/core/succession/former_worlds.h"

#include <algorithm>

#include "paceline/base/mark.h"

namespace paceline::core {

void EndUnbegunWorld(Turn& turn) {
  const JobState& state = turn.state();
  if (state.phase != Phase::kStarting) return;
  MARK("a world of the former master had not begun");
  turn.Emit(WorldEnded{.generation = state.world->generation,
                       .step = -1,
                       .reason = "its master was replaced before it trained"},
            {state.world_seq});
}

void EndForgottenWorld(Turn& turn, const NodeState* node, const NodeReport& report) {
  const JobState& state = turn.state();
  if (node == nullptr || !state.IsSeated(node->id)) return;
  const bool trains = state.phase == Phase::kStarting || state.phase == Phase::kRunning;
  if (!trains) return;  // a stop is not taken back: each node is told to leave
  Generation newest = report.generation;
  for (const RankReport& rank : report.ranks) newest = std::max(newest, rank.generation);
  const Generation known = std::max({state.before_term, state.solo_last, state.world->generation});
  if (newest <= known || TermOf(newest) >= state.term) return;
  MARK("the copy of the journal lacks a world");
  turn.Emit(WorldEnded{.generation = state.world->generation,
                       .step = -1,
                       .reason = "a newer world was formed after the journal's copy ends"},
            {state.world_seq});
}

bool EndPassedWorld(Turn& turn) {
  const JobState& state = turn.state();
  const bool is_former = state.world.has_value() && TermOf(state.world->generation) < state.term;
  if (!is_former || !state.checkpoints.not_stored.has_value()) return false;
  const std::optional<StoredCheckpoint> stored =
      turn.watch().checkpoints.newest_seen(state.checkpoints);
  if (!stored.has_value() || stored->job_id != state.spec.job_id) return false;
  const Generation passed_by(stored->saved.generation);
  if (passed_by <= state.world->generation || TermOf(passed_by) >= state.term) return false;
  MARK("storage has a newer world of the former master");
  turn.Emit(WorldEnded{.generation = state.world->generation,
                       .step = turn.watch().step,
                       .reason = "storage has " + stored->name +
                                 ", which a newer world of the former master saved"},
            {state.world_seq});
  return true;
}

}  // namespace paceline::core
