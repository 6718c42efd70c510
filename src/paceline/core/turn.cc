#include "paceline/core/turn.h"

#include <algorithm>
#include <utility>

#include "paceline/core/detect/detectors.h"
#include "paceline/core/finish.h"
#include "paceline/core/slow/time_told.h"
#include "paceline/core/tasks/tasks.h"

namespace paceline::core {

namespace {

// Time between the kill of the ranks on a node under notice and the kill of the node by its
// platform.
constexpr Duration kKilledBefore = Duration::Milliseconds(500);

// Facts that change the assignments of many nodes.
bool ChangesAssignments(const Fact& fact) {
  return std::holds_alternative<WorldFormed>(fact) || std::holds_alternative<WorldEnded>(fact) ||
         std::holds_alternative<StopDecided>(fact) || std::holds_alternative<JobFinished>(fact) ||
         std::holds_alternative<SoloRestarted>(fact) || std::holds_alternative<TasksPlaced>(fact);
}

// Facts that may change the wished nodes.
bool ChangesWish(const Fact& fact) {
  return std::holds_alternative<JobCreated>(fact) || std::holds_alternative<NodeJoined>(fact) ||
         std::holds_alternative<NodeLost>(fact) || std::holds_alternative<NodeLeft>(fact) ||
         std::holds_alternative<NodeEvicted>(fact) || std::holds_alternative<WishChanged>(fact) ||
         std::holds_alternative<NodeNoticed>(fact) ||
         std::holds_alternative<PastRemembered>(fact) || std::holds_alternative<SizeChosen>(fact) ||
         std::holds_alternative<WorldFormed>(fact) || std::holds_alternative<ProgressMade>(fact) ||
         std::holds_alternative<StopDecided>(fact) || std::holds_alternative<JobFinished>(fact) ||
         std::holds_alternative<JobResumed>(fact);
}

Assignment RunAssignment(const JobState& state, const NodeState& node) {
  const World& world = *state.world;
  const Seat& seat = state.SeatOf(node);
  Assignment assignment;
  assignment.kind = Assignment::Kind::kRun;
  assignment.generation = world.generation;
  assignment.seat = node.seat;
  assignment.seat_count = static_cast<uint32_t>(world.seats.size());
  assignment.first_rank = seat.first_rank;
  assignment.rank_count = seat.rank_count;
  assignment.world_size = world.world_size();
  assignment.restart_count = world.restart_count;
  assignment.store = world.store;
  assignment.memory_limit = node.memory_limit;
  assignment.fresh_starter = state.has_fresh_node && state.fresh_node == node.id;
  if (world.seats.size() == 1 && state.solo_last > world.generation) {
    assignment.solo_first = world.generation.next();
    assignment.solo_last = state.solo_last;
  }
  return assignment;
}

// The time that a node that left still has until it must kill its ranks. The world of a node that
// is taken out has ended by a failure, so its ranks have nothing to save and end at once, like
// those of the other nodes.
Duration TimeLeft(const NodeState& node) {
  if (node.status == NodeState::Status::kEvicted) return Duration();
  if (!node.notice.has_value()) return Duration::Infinite();
  return std::max(Duration(), node.notice->leave_by - node.since - kKilledBefore);
}

// The exit code of the agent of a node that leaves or is taken out.
int ExitCodeOf(const NodeState& node) {
  return node.status == NodeState::Status::kEvicted ? kExitFenced : 0;
}

bool SameOrder(Assignment a, const Assignment& b) {
  a.reason = b.reason;
  return a == b;
}

}  // namespace

Assignment DesiredAssignment(const JobState& state, NodeId node) {
  const NodeState* known = state.Find(node);
  Assignment assignment;
  assignment.generation = state.generation;
  const bool over = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  const bool left = known != nullptr && known->IsSentAway();
  const Duration stop_grace = state.spec.timers.stop_grace;
  if (over || left) {
    assignment.kind = Assignment::Kind::kLeave;
    assignment.is_over = over;
    assignment.grace = over ? state.stop_grace : std::min(stop_grace, TimeLeft(*known));
    assignment.signal = over ? state.stop_signal : 0;
    assignment.exit_code = over ? state.exit_code : ExitCodeOf(*known);
    assignment.reason = over ? state.final_reason : known->reason;
    return assignment;
  }
  if (state.IsSeated(node)) return RunAssignment(state, *known);
  if (const auto tasks = TaskAssignment(state, node)) return *tasks;
  assignment.kind = Assignment::Kind::kIdle;
  assignment.check_round = known == nullptr ? 0 : known->check_round;
  // A single node's block is above its world, and ranks of the block must end, too.
  const bool trains = state.world.has_value() || !state.tasks.empty();
  assignment.reason = trains ? "spare" : state.waiting_for;
  return assignment;
}

RecordSeq Turn::Emit(Fact fact, std::vector<RecordSeq> causes) {
  const int64_t steps = watch().step_count;
  if (const auto account = AccountBefore(fact, state(), now_, steps, &watch().time)) {
    Emit(*account, {state().world_seq});
  }
  causes.erase(std::remove(causes.begin(), causes.end(), RecordSeq()), causes.end());
  std::sort(causes.begin(), causes.end());
  causes.erase(std::unique(causes.begin(), causes.end()), causes.end());
  tell_all_ = tell_all_ || ChangesAssignments(fact);
  parts_.watch.may_wish_anew = parts_.watch.may_wish_anew || ChangesWish(fact);
  Record record{.seq = parts_.state.last_seq.next(),
                .at = now_,
                .causes = std::move(causes),
                .fact = std::move(fact)};
  Apply(record, &parts_.state);
  actions_.records.push_back(std::move(record));
  parts_.watch.dirty = true;
  return parts_.state.last_seq;
}

void Turn::Say(Note::Level level, std::string text) {
  actions_.notes.push_back({level, std::move(text)});
}

Verdict Turn::Judge(const NodeState& node) {
  return JudgeNode({state(), node, Link(node.id), watch()}, now_);
}

void Turn::Rewatch(NodeId node) {
  const NodeState* known = state().Find(node);
  if (known == nullptr) return;
  const Verdict verdict = Judge(*known);
  const bool healthy =
      verdict.kind == Verdict::Kind::kHealthy || verdict.kind == Verdict::Kind::kSuspect;
  watch().checks.NoLaterThan(node, healthy ? verdict.until : now_);
}

void Turn::TellNode(NodeId node, NodeLink& link) {
  if (!link.connection) return;
  Assignment desired = DesiredAssignment(state(), node);
  if (!link.tell && SameOrder(desired, link.told)) return;
  link.tell = false;
  link.told = desired;
  Do(AssignNode{node, std::move(desired)});
}

void Turn::TellSoon(NodeId node) {
  Link(node).tell = true;
  watch().tells.push_back(node);
}

void Turn::TellChanges() {
  // Most events concern one node or none, so they must not examine every node.
  std::vector<NodeId> tells = std::exchange(watch().tells, {});
  if (tell_all_) {
    for (auto& [node, link] : links()) TellNode(node, link);
  } else {
    std::sort(tells.begin(), tells.end());
    for (const NodeId node : tells) {
      if (Link(node).tell) TellNode(node, Link(node));
    }
  }
  tell_all_ = false;
}

}  // namespace paceline::core
