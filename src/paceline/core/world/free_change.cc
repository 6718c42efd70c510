#include "paceline/core/world/free_change.h"

#include <algorithm>

#include "paceline/base/mark.h"

namespace paceline::core {

namespace {

// Ranks that each save a part report it one after the other. A rank that reported before and does
// not report again within this time has nothing more to save.
constexpr Duration kSavesApart = Duration::Seconds(10);
// Steps after a script's save. The script may write to a temporary name and rename it later; after
// this many steps the rename is done.
constexpr int64_t kStepsAfterFile = 2;

// Whether this rank reports checkpoints, as far as known. At a world's first checkpoint, ranks that
// have not reached a later step may still report it.
bool Tells(const JobState& state, const Watch& watch, const RankReport& rank,
           int64_t saved_before) {
  if (rank.generation != state.world->generation) return false;
  if (rank.saved_step >= 0) return true;
  return saved_before < 0 && rank.step <= watch.saved_step;
}

}  // namespace

int64_t NewestCheckpoint(Turn& turn) {
  const Watch& watch = turn.watch();
  const auto in_memory = watch.checkpoints.newest_in_memory();
  const auto& committed = turn.state().checkpoints.committed;
  return std::max({watch.saved_step, in_memory.has_value() ? in_memory->step : int64_t{-1},
                   committed.has_value() ? committed->saved.step : int64_t{-1}});
}

std::string WhyFree(Turn& turn, const WorldChange& change) {
  const JobState& state = turn.state();
  const std::string newer = " is newer than " + std::string(change.wanted_by);
  if (IsAllInMemory(turn, change.next, change.move)) {
    MARK("a node leaves and each step is in memory");
    return "each step is in the memory of others";
  }
  const auto saved_at = turn.watch().checkpoints.SavedFor(change.next, change.move);
  if (saved_at.has_value() && *saved_at > change.wanted_at) {
    MARK("a node leaves after a copy of a step");
    return "others have copies of a step that" + newer;
  }
  const auto& committed = state.checkpoints.committed;
  const uint32_t ranks_fixed = state.checkpoints.ranks_fixed;
  const bool is_later = IsStoredSince(state.checkpoints, change.saved_step, change.commits);
  if (is_later && (ranks_fixed == 0 || ranks_fixed == change.next.world_size())) {
    MARK("a node leaves after a commit");
    return "the checkpoint of step " + std::to_string(committed->saved.step) + " in storage" +
           newer;
  }
  if (turn.watch().saved_step <= change.saved_step || !HaveAllSaved(turn, change.saved_step)) {
    return "";
  }
  MARK("a node leaves after a checkpoint");
  return "the checkpoint of step " + std::to_string(turn.watch().saved_step) + newer;
}

bool IsAllInMemory(Turn& turn, const World& next, const CheckpointLedger::Move& move) {
  Watch& watch = turn.watch();
  if (!watch.checkpoints.newest_in_memory().has_value()) return false;
  if (watch.checkpoints.CanMoveTo(next, move, turn.now())) return true;
  watch.grow_at = std::min(watch.grow_at, turn.now() + kLookAtSteps);
  return false;
}

bool HaveAllSaved(Turn& turn, int64_t saved_before) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  const Instant until = watch.saved_at + kSavesApart;
  if (turn.now() >= until) return true;
  for (const Seat& seat : state.world->seats) {
    for (const auto& [local, rank] : turn.Link(seat.node).ranks) {
      if (!Tells(state, watch, rank, saved_before) || rank.saved_step > saved_before) continue;
      MARK("a node waits for the other ranks' parts of a checkpoint");
      const Instant again = rank.saved_step >= 0 ? until : turn.now() + kLookAtSteps;
      watch.grow_at = std::min({watch.grow_at, until, again});
      return false;
    }
  }
  return true;
}

bool HasWrittenFile(Turn& turn, Instant since) {
  Watch& watch = turn.watch();
  if (!turn.state().has_resumed || watch.filed_at <= since) return false;
  if (watch.step_count >= watch.filed_step_count + kStepsAfterFile) return true;
  watch.grow_at = std::min(watch.grow_at, turn.now() + kLookAtSteps);
  return false;
}

}  // namespace paceline::core
