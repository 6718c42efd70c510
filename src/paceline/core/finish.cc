#include "paceline/core/finish.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/checkpoints.h"
#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/world/ranks.h"

namespace paceline::core {

namespace {

// A node reports the images in its memory within this time after it has come.
constexpr Duration kMemoryPatience = Duration::Seconds(3);

constexpr std::string_view kAwaitsStorage =
    "waits until its last checkpoint is in storage; a second stop ends the job within ten seconds";

// A node that may still hold ranks, or does not know yet that the job is over.
bool IsAwaited(const NodeState& node, const NodeLink& link) {
  if (!link.connection) return node.IsMember() && link.told.kind != Assignment::Kind::kLeave;
  if (HoldsRanks(link)) return true;
  // The node has not yet reported the ranks of its last order.
  return node.IsMember() && link.carried_out < link.told.generation;
}

// The newest step that is in memory but not in storage when the job ends; none: all is stored.
std::optional<CheckpointNotStored> NotStored(Turn& turn) {
  const CheckpointLedger& ledger = turn.watch().checkpoints;
  const CheckpointBook& book = turn.state().checkpoints;
  std::optional<CheckpointNotStored> left = book.not_stored;
  const std::optional<SavedStep> newest = ledger.newest_saved();
  const bool is_newer = newest.has_value() &&
                        (!book.committed.has_value() || book.committed->saved < *newest) &&
                        (!left.has_value() || left->saved < *newest);
  if (is_newer) {
    left = CheckpointNotStored{.saved = *newest, .generation = turn.state().last_world.generation};
    if (ledger.terms().has_value()) {
      left->directory = ledger.terms()->directory;
    } else if (book.committed.has_value()) {
      left->directory = book.committed->directory;
    }
  }
  if (!left.has_value()) return std::nullopt;
  if (!ledger.problem().empty()) left->reason = ledger.problem();
  if (left->reason.empty()) left->reason = "the job ended before it was written";
  left->is_final = true;
  return left;
}

// The steps that are not in storage, appended to the reason of the job's end.
std::string Say(const std::optional<CheckpointNotStored>& left, Turn& turn) {
  const std::string& problem = turn.watch().checkpoints.problem();
  if (!left.has_value() && !turn.state().AnyWorldYet() && !problem.empty()) {
    return "; steps in the memory of its nodes may not be in storage: " + problem;
  }
  if (!left.has_value()) return "";
  return "; step " + std::to_string(left->saved.step) + " is not in storage: " + left->reason;
}

// A table server that ended otherwise than with 0, after all workers were done: its last updates
// are not in its snapshot. ""; there is none.
std::string UnsavedTables(Turn& turn) {
  const JobState& state = turn.state();
  if (!state.spec.tasks.has_tables()) return "";
  for (const TaskState& one : state.tasks) {
    const auto& ranks = turn.Link(one.task.node).ranks;
    const auto found = ranks.find(one.task.slot);
    if (KindOfTask(one.task.rank) != TaskKind::kPs || found == ranks.end()) continue;
    const RankReport& report = found->second;
    const bool has_ended =
        report.state == RankReport::State::kExited && report.generation == one.task.generation;
    if (!has_ended || report.exit.is_success()) continue;
    MARK("a table server ends without saving all");
    return "; the last updates of " + RankName(one.task.rank) +
           " are not in its snapshot: " + report.exit.headline;
  }
  return "";
}

}  // namespace

void OnStopRequested(Turn& turn, const StopRequested& event) {
  const JobState& state = turn.state();
  if (state.phase == Phase::kFinished || state.phase == Phase::kEmpty) return;
  const bool again = state.phase == Phase::kStopping;
  const bool asked_before = again && state.is_stop_asked;
  // A job that ends by itself has no grace either, but patience.
  const bool has_no_grace = event.force || (again && !asked_before);
  const Duration grace = has_no_grace ? Duration() : event.grace;
  // Schedulers repeat their request. A repetition counts only if it shortens the time.
  if (asked_before && grace >= state.stop_grace) return;
  MARK("stop asked");
  std::string reason = event.why;
  if (asked_before) {
    reason =
        "asked to stop again: " + (grace == Duration() ? std::string("no grace period")
                                                       : "a grace period of " + ToString(grace));
  } else if (again) {
    reason = state.final_reason;  // if the job is already ending by itself, its reason stays
  }
  // A person often stops a job because it hangs.
  std::vector<RecordSeq> causes;
  const RecordSeq hang = turn.watch().hang.told_seq;
  if (hang.value() != 0) causes.push_back(hang);
  turn.Emit(StopDecided{.exit_code = again ? state.exit_code : event.exit_code,
                        .grace = grace,
                        .reason = std::move(reason),
                        .is_asked = true,
                        .signal = asked_before ? state.stop_signal : event.signal},
            std::move(causes));
}

void ResumeEnded(Turn& turn) {
  const JobState& state = turn.state();
  const auto& not_stored = state.checkpoints.not_stored;
  const bool is_without = not_stored.has_value() && not_stored->is_final;
  const bool failed = state.exit_code != 0 && state.exit_code != kExitNotStored;
  if (!is_without && !failed) return;
  std::string reason = "the job was resumed by `paceline run`";
  if (failed) {
    MARK("a job that failed or was stopped is resumed");
    reason += ", after its end with exit code " + std::to_string(state.exit_code);
  }
  if (is_without) {
    MARK("a job that ended without storage is resumed");
    reason +=
        ": step " + std::to_string(not_stored->saved.step) + " is still to be brought to storage";
  }
  turn.watch().dirty = true;
  turn.Emit(JobResumed{std::move(reason), failed});
}

StoreOnly TryToStoreOnly(Turn& turn) {
  const JobState& state = turn.state();
  const auto& left = state.checkpoints.not_stored;
  if (!state.only_stores || !left.has_value()) return StoreOnly::kNo;
  const std::string step = "step " + std::to_string(left->saved.step);
  if (HasWhole(turn, left->saved)) {
    MARK("a resumed job only brings its last step to storage");
    turn.Emit(StopDecided{
        .exit_code = 0,
        .grace = Duration(),
        .reason = "its ranks had ended before; " + step + " was still to be brought to storage"});
    return StoreOnly::kEnds;
  }
  Watch& watch = turn.watch();
  std::string absent;
  for (const Seat& seat : state.last_world.seats) {
    if (!turn.Link(seat.node).connection) absent = state.NameOf(seat.node);
  }
  const Instant since = absent.empty() ? std::min(watch.minimum_since, turn.now()) : Instant::Max();
  watch.minimum_since = since;
  const Instant due =
      absent.empty() ? since + kMemoryPatience : state.phase_since + state.spec.timers.storage_wait;
  if (turn.now() >= due) {
    MARK("a resumed job has lost its last step");
    return StoreOnly::kNo;
  }
  watch.settle_at = std::min(watch.settle_at, due);
  watch.pending = absent.empty()
                      ? "looks for " + step + " in the memory of its nodes"
                      : "waits for " + absent + ", which may have a part of " + step + " in memory";
  return StoreOnly::kWaits;
}

bool NoteFinish(Turn& turn) {
  const JobState& state = turn.state();
  if (state.phase != Phase::kStopping) return false;
  const bool late = turn.now() >= FinishDeadline(state);
  std::string awaited;
  for (const auto& [id, node] : state.nodes) {
    if (!IsAwaited(node, turn.Link(id))) continue;
    awaited = node.name;
    break;
  }
  if (!awaited.empty() && !late) {
    turn.watch().pending = "waits for the ranks of " + awaited + " to end";
    return false;
  }
  // A requested stop ends with its grace. A job that ends by itself has all the time it needs.
  turn.watch().awaits_storage = AwaitsStorage(turn) && (!late || !state.is_stop_asked);
  if (turn.watch().awaits_storage) {
    turn.watch().pending = "waits until its last checkpoint is in storage";
    // An end that takes longer than expected is reported once.
    const bool tells = late && state.waiting_for != kAwaitsStorage;
    if (tells) turn.Emit(WaitBegan{std::string(kAwaitsStorage)});
    return tells;
  }
  if (!awaited.empty())
    turn.Say(Note::Level::kWarning, awaited + " did not report the end of its ranks");
  const std::optional<CheckpointNotStored> left = NotStored(turn);
  // Recorded, so that a resumed job knows that this step is not in storage.
  if (left.has_value() && left != state.checkpoints.not_stored) {
    turn.Emit(*left);
    return true;
  }
  int exit_code = state.exit_code;
  if (left.has_value() && exit_code == 0) exit_code = kExitNotStored;
  // A script failed because storage refused its step; but storage has it now.
  if (!left.has_value() && exit_code == kExitNotStored) exit_code = 1;
  const std::string unsaved = UnsavedTables(turn);
  if (!unsaved.empty() && exit_code == 0) exit_code = 1;
  const std::string reason = state.final_reason + Say(left, turn) + unsaved;
  const int64_t last = std::max(turn.watch().step, state.step_max);
  const int64_t step = last >= 0 ? last : std::max(int64_t{0}, turn.watch().step_count);
  turn.Emit(JobFinished{.exit_code = exit_code,
                        .reason = reason,
                        .step = step,
                        .step_count = turn.watch().step_count,
                        .reached = std::max(int64_t{0}, turn.watch().world_step)});
  turn.Do(FinishJob{exit_code, reason});
  return true;
}

Instant FinishDeadline(const JobState& state) {
  if (state.phase != Phase::kStopping) return Instant::Max();
  return state.phase_since + state.stop_grace + kFinishPatience;
}

}  // namespace paceline::core
