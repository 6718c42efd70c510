#include "paceline/core/job.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/checkpoint/checkpoints.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/finish.h"
#include "paceline/core/hang/hang.h"
#include "paceline/core/next_world.h"
#include "paceline/core/slow/slow.h"
#include "paceline/core/slow/time_told.h"
#include "paceline/core/succession/former_worlds.h"
#include "paceline/core/tasks/task_scale.h"
#include "paceline/core/tasks/tasks.h"
#include "paceline/core/turn.h"
#include "paceline/core/world/drill.h"
#include "paceline/core/world/growth.h"
#include "paceline/core/world/membership.h"
#include "paceline/core/world/memory.h"
#include "paceline/core/world/node_check.h"
#include "paceline/core/world/pair_tests.h"
#include "paceline/core/world/plan_notes.h"
#include "paceline/core/world/ranks.h"
#include "paceline/core/world/resize.h"
#include "paceline/core/world/slow_node.h"
#include "paceline/core/world/wish.h"

namespace paceline::core {

namespace {

// The most records that one event may cause before the state is stable.
constexpr int kSettleRoundsMax = 32;

// A master that wakes up this much too late was stopped or starved itself, so silence in that time
// is not the nodes' fault.
constexpr Duration kStallMin = Duration::Milliseconds(200);

struct Dispatcher {
  Turn& turn;

  void operator()(const JobSubmitted& event) {
    if (turn.state().phase == Phase::kEmpty) turn.Emit(JobCreated{event.spec});
  }
  void operator()(const MasterStarted& event) { OnMasterStarted(turn, event); }
  void operator()(const NodeRegistered& event) { OnRegistered(turn, event); }
  void operator()(const NodeReported& event) { OnReported(turn, event); }
  void operator()(const NodesHeard& event) { OnHeard(turn, event); }
  void operator()(const RankExited& event) { OnRankExited(turn, event); }
  void operator()(const CheckpointReported& event) { OnCheckpointReported(turn, event); }
  void operator()(const EvidenceCollected& event) { OnEvidence(turn, event); }
  void operator()(const NodeDisconnected& event) { OnDisconnected(turn, event); }
  void operator()(const NodeGone& event) { OnGone(turn, event); }
  void operator()(const NoticeCame& event) { OnNotice(turn, event); }
  void operator()(const NodeLeaving& event) { OnLeaving(turn, event); }
  void operator()(const StopRequested& event) { OnStopRequested(turn, event); }
  void operator()(const SizeRequested& event) { OnSizeRequested(turn, event); }
  void operator()(const TasksRequested& event) { OnTasksRequested(turn, event); }
  void operator()(const PartitionsTaken& event) { OnPartitionsTaken(turn, event); }
  void operator()(const JournalStalled&) { turn.watch().journal_stalled_at = turn.now(); }
  void operator()(const JournalCaughtUp&) { OnJournalCaughtUp(turn); }
  void operator()(const LeasedWorkDone& event) { turn.watch().leased_work = event; }
  void operator()(const TimePassed&) {}
  void operator()(const PaceJudged& event) { OnPaceJudged(turn, event); }
  void operator()(const TimeTold& event) { OnTimeTold(turn, event); }
  void operator()(const PlanReported& event) { OnPlanReported(turn, event); }
  void operator()(const NodeCheckEnded& event) { OnCheckEnded(turn, event); }
  void operator()(const MemoryForeseen& event) { OnMemoryForeseen(turn, event); }
  void operator()(const DrillRequested& event) { OnDrillRequested(turn, event); }
  void operator()(const LinkTestEnded& event) { OnLinkTestEnded(turn, event); }
};

// Adds the time in which this master did not listen to every node's deadlines.
void ForgiveStall(Turn& turn) {
  const Instant deadline = turn.watch().deadline;
  if (deadline.is_max() || turn.now() - deadline < kStallMin) return;
  MARK("master stalled");
  const Duration stall = turn.now() - deadline;
  GiveTimeBack(turn, stall);
  turn.Say(Note::Level::kWarning, "the master did not run for " + ToString(stall) +
                                      "; timers of nodes are extended by that time");
}

// Waiting for nodes, or with its tasks placed: Watch::settle_at counts.
bool IsUnderWay(const JobState& state) {
  return state.phase == Phase::kWaiting || state.phase == Phase::kTasks;
}

bool SettleOnce(Turn& turn) {
  if (turn.state().spec.tasks.is_on() && IsUnderWay(turn.state())) return SettleTasks(turn);
  switch (turn.state().phase) {
    case Phase::kEmpty:
    case Phase::kTasks:
    case Phase::kFinished: return false;
    case Phase::kWaiting:
      return NotePairs(turn) || NoteMoved(turn) || NoteLeavers(turn) || FormWorld(turn);
    case Phase::kStopping: return NoteCheckpoints(turn) || NoteFinish(turn);
    case Phase::kStarting:
    case Phase::kRunning: break;
  }
  return EndDoomedWorld(turn) || EndPassedWorld(turn) || NoteAdvance(turn) || NoteHang(turn) ||
         NoteLoss(turn) || NoteCheckpoints(turn) || NoteLeavers(turn) || NoteShrink(turn) ||
         NotePairs(turn) || NoteMoved(turn) || NoteSlow(turn) || NoteGrowth(turn) || NoteTime(turn);
}

bool ExpectsNodes(const JobState& state) {
  return state.phase != Phase::kEmpty && state.phase != Phase::kFinished && !state.nodes.empty();
}

Instant Deadline(const JobState& state, const Watch& watch) {
  if (!ExpectsNodes(state)) return Instant::Max();
  // A regular wake-up lets the master notice that it was stopped itself; see ForgiveStall.
  Instant deadline = watch.last_step_at + HeartbeatInterval(state.spec);
  if (!watch.journal_stalled_at.has_value()) {
    deadline = std::min(deadline, watch.check_all ? watch.last_step_at : watch.checks.first());
  }
  if (IsUnderWay(state)) deadline = std::min(deadline, watch.settle_at);
  const bool trains = state.phase == Phase::kStarting || state.phase == Phase::kRunning;
  if (trains || state.phase == Phase::kWaiting) {
    deadline = std::min(deadline, PairsDeadline(watch));
  }
  if (trains) deadline = std::min(deadline, watch.grow_at);
  if (trains && watch.slow_node.has_value()) {
    deadline = std::min(deadline, watch.slow_node->look_at);
  }
  if (state.phase != Phase::kStopping) deadline = std::min(deadline, watch.leave_at);
  deadline = std::min(deadline, AdvanceDeadline(state, watch));
  if (trains) deadline = std::min(deadline, HangDeadline(watch));
  // A deadline in the past waits for a node's report and not for time: it would wake the master
  // again and again.
  const Instant checkpoints = watch.checkpoints.NextDeadline();
  if (checkpoints > watch.last_step_at) deadline = std::min(deadline, checkpoints);
  // Before later events, but after all events that wait already.
  const bool is_looked_at = trains || state.phase == Phase::kStopping;
  if (is_looked_at && watch.checkpoints.has_news()) {
    deadline = std::min(deadline, watch.last_step_at);
  }
  return watch.awaits_storage ? deadline : std::min(deadline, FinishDeadline(state));
}

}  // namespace

Job::Job() = default;

void Job::Restore(const Record& record) { Apply(record, &state_); }

Actions Job::Step(Instant now, const Event& event) {
  now = std::max({now, watch_.last_step_at, state_.last_record_at});
  Turn turn({state_, links_, watch_}, now);
  ForgiveStall(turn);
  std::visit(Dispatcher{turn}, event);
  watch_.last_step_at = now;
  watch_.is_calm = std::holds_alternative<TimePassed>(event);
  const bool detects = state_.phase != Phase::kEmpty && state_.phase != Phase::kFinished;
  if (detects) DetectLosses(turn);
  int rounds = 0;
  while (SettleOnce(turn)) CHECK(++rounds < kSettleRoundsMax, "the state comes to rest");
  // First, because an agent that leaves must know whether its images still go to storage.
  TellCheckpoints(turn);
  turn.TellChanges();
  TellWishes(turn);
  watch_.deadline = Deadline(state_, watch_);
  return turn.Take();
}

std::string Job::WhyNotSize(uint32_t nodes) {
  return core::WhyNotSize(state_, nodes, &watch_.room);
}

DrillOutlook Job::OutlookOf(const DrillRequested& drill) {
  Turn turn({state_, links_, watch_}, watch_.last_step_at);
  return OutlookOfDrill(turn, drill);
}

Instant Job::NextDeadline() const { return watch_.deadline; }

std::string Job::Pending() const {
  switch (state_.phase) {
    case Phase::kEmpty: return "no job was submitted yet";
    case Phase::kWaiting: return watch_.pending.empty() ? "forms a world" : watch_.pending;
    case Phase::kStarting:
      return "world " + std::to_string(uint64_t{state_.world->restart_count} + 1) +
             " starts: " + std::to_string(watch_.running_seats) + " of " +
             std::to_string(state_.world->seats.size()) + " nodes run";
    case Phase::kRunning: {
      std::string text = "trains with " + Counted(state_.world->seats.size(), "node") + ", " +
                         Counted(state_.world->world_size(), "rank");
      const uint32_t most = state_.NextBounds().nodes_max;
      if (IsAboveChosen(state_)) return text + "; " + ShrinkText(state_, watch_);
      if (state_.world->seats.size() >= most) return text;
      if (state_.growth.pending) return text + "; more nodes join after the next checkpoint";
      const bool is_chosen = state_.size.nodes == most;
      return is_chosen ? text + "; waits for nodes, up to the " + std::to_string(most) +
                             " that were requested"
                       : text;
    }
    case Phase::kTasks: return watch_.pending;
    case Phase::kStopping: return watch_.pending.empty() ? "stops" : watch_.pending;
    case Phase::kFinished: return "finished: " + state_.final_reason;
  }
  return "";
}

}  // namespace paceline::core
