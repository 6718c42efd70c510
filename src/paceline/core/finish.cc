#include "paceline/core/finish.h"

#include <optional>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoints.h"
#include "paceline/core/ranks.h"

namespace paceline::core {

namespace {

// A node that still may hold ranks, or has not been told that the job is over.
bool IsAwaited(const NodeState& node, const NodeLink& link) {
  if (!link.connection) return node.IsMember() && link.told.kind != Assignment::Kind::kLeave;
  if (HoldsRanks(link)) return true;
  // Ranks that it was told to start and has not reported yet.
  return node.IsMember() && link.carried_out < link.told.generation;
}

// What goes with the job, behind the reason of its end.
std::string NotStored(Turn& turn) {
  const CheckpointLedger& ledger = turn.watch().checkpoints;
  const std::optional<SavedStep> newest = ledger.newest_in_memory();
  const auto& committed = turn.state().checkpoints.committed;
  if (!newest.has_value() || (committed.has_value() && !(committed->saved < *newest))) return "";
  std::string text = "; step " + std::to_string(newest->step) + " is not in storage";
  if (!ledger.problem().empty()) text += ": " + ledger.problem();
  return text;
}

}  // namespace

void OnStopRequested(Turn& turn, const StopRequested& event) {
  const JobState& state = turn.state();
  if (state.phase == Phase::kFinished || state.phase == Phase::kEmpty) return;
  const bool again = state.phase == Phase::kStopping;
  const bool force = event.force || again;
  if (again && state.stop_grace == Duration()) return;
  MARK("stop asked");
  turn.Emit(StopDecided{.exit_code = again ? state.exit_code : event.exit_code,
                        .grace = force ? Duration() : event.grace,
                        .reason = force && again ? "asked to stop again: no grace" : event.why,
                        .is_asked = true});
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
  // A stop that was asked for has its grace; a job that ends by itself, all the time it needs.
  turn.watch().awaits_storage = AwaitsStorage(turn) && (!late || !state.is_stop_asked);
  if (turn.watch().awaits_storage) {
    turn.watch().pending = "waits until its last checkpoint is in storage";
    return false;
  }
  if (!awaited.empty())
    turn.Say(Note::Level::kWarning, awaited + " did not report the end of its ranks");
  const std::string reason = state.final_reason + NotStored(turn);
  turn.Emit(JobFinished{state.exit_code, reason});
  turn.Do(FinishJob{state.exit_code, reason});
  return true;
}

Instant FinishDeadline(const JobState& state) {
  if (state.phase != Phase::kStopping) return Instant::Max();
  return state.phase_since + state.stop_grace + kFinishPatience;
}

}  // namespace paceline::core
