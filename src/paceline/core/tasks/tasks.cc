#include "paceline/core/tasks/tasks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/next_world.h"
#include "paceline/core/tasks/task_budget.h"
#include "paceline/core/tasks/task_scale.h"

namespace paceline::core {

namespace {

using State = RankReport::State;

constexpr std::string_view kServerEnded = "ended with exit code 0 while workers still need it";

// The chief, the workers and the evaluator end by themselves. A server does not.
bool MustEnd(const Task& task) { return KindOfTask(task.rank) != TaskKind::kPs; }

std::string TasksText(const TaskSpec& spec) {
  if (spec.has_tables()) {
    return Counted(spec.workers, "worker") + " and " + Counted(spec.servers, "table server");
  }
  std::string text = "the chief";
  if (spec.workers > 1) text += ", " + Counted(spec.workers - 1, "worker");
  if (spec.evaluators > 0) text += ", the evaluator";
  if (spec.servers > 0) text += " and " + Counted(spec.servers, "parameter server");
  return text;
}

std::vector<Task> Tasks(const JobState& state) {
  std::vector<Task> tasks;
  tasks.reserve(state.tasks.size());
  for (const TaskState& task : state.tasks) tasks.push_back(task.task);
  return tasks;
}

// ---- placing all ----

// Each node in turn gets a task, while it has a slot with a port.
std::vector<Task> Spread(Turn& turn, const std::vector<Candidate>& nodes, Generation generation) {
  const JobState& state = turn.state();
  std::vector<uint32_t> used(nodes.size(), 0);
  std::vector<Task> tasks;
  size_t next = 0;
  for (const Rank rank : WantedTasks(state)) {
    size_t tried = 0;
    const auto ports = [&](size_t i) -> const std::vector<uint32_t>& {
      return turn.Link(nodes[i].node).task_ports;
    };
    const auto is_full = [&](size_t i) {
      return used[i] >= std::min<size_t>(nodes[i].slots, ports(i).size());
    };
    while (tried < nodes.size() && is_full(next)) {
      next = (next + 1) % nodes.size();
      ++tried;
    }
    if (tried == nodes.size()) return {};
    const uint32_t slot = used[next]++;
    tasks.push_back({.rank = rank,
                     .node = nodes[next].node,
                     .slot = slot,
                     .generation = generation,
                     .host = state.Find(nodes[next].node)->address,
                     .port = ports(next)[slot]});
    next = (next + 1) % nodes.size();
  }
  return tasks;
}

bool PlaceAll(Turn& turn) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  const std::vector<Candidate> nodes = Candidates(turn);
  uint32_t slots = 0;
  for (const Candidate& node : nodes) slots += node.slots;
  const auto wanted = static_cast<uint32_t>(WantedTasks(state).size());
  if (nodes.size() < state.spec.nodes_min || slots < wanted) {
    watch.minimum_since = Instant::Max();
    watch.pending = "waits for nodes: " + Counted(nodes.size(), "node") + " with " +
                    Counted(slots, "slot") + " for " + Counted(wanted, "task");
    return false;
  }
  watch.minimum_since = std::min(watch.minimum_since, turn.now());
  const Instant due = watch.minimum_since + state.spec.timers.join_window;
  if (nodes.size() < state.spec.nodes_max && turn.now() < due) {
    watch.settle_at = due;
    watch.pending = "waits for more nodes, up to " + std::to_string(state.spec.nodes_max);
    return false;
  }
  std::vector<Task> tasks = Spread(turn, nodes, NextInTerm(turn));
  if (tasks.empty()) {
    watch.pending = "waits for its nodes to hold a port for each task";
    return false;
  }
  std::vector<RecordSeq> causes;
  for (const Candidate& node : nodes) {
    if (causes.size() < kIncidentCausesMax) causes.push_back(state.Find(node.node)->cause);
  }
  turn.Emit(TasksPlaced{.tasks = std::move(tasks),
                        .reason = TasksText(state.spec.tasks) + " start on " +
                                  Counted(nodes.size(), "node")},
            std::move(causes));
  return true;
}

// ---- a node is gone ----

// Why the task's node cannot go on with it; "": it can.
std::string WhyGone(const JobState& state, const TaskState& task) {
  const NodeState* node = state.Find(task.task.node);
  if (node == nullptr) return "";
  // Nobody asks for a worker that has ended, except in TensorFlow's static cluster.
  if (task.task.is_done && state.spec.tasks.has_tables()) return "";
  // Or it was lost and came back, or was rebooted, since the task was placed.
  const bool is_gone = !node->IsMember() || node->cause > task.placed;
  return is_gone ? node->name + " " + node->reason : "";
}

// Workers learn the new addresses of table servers, so the tasks of a lost node start elsewhere
// while all others go on. False: there is no room for them, or no other task.
bool MoveFromLostNode(Turn& turn, RecordSeq cause, const std::string& why) {
  const JobState& state = turn.state();
  if (!state.spec.tasks.has_tables()) return false;
  std::vector<Task> tasks;
  std::vector<Task> lost;
  for (const TaskState& one : state.tasks) {
    (WhyGone(state, one).empty() ? tasks : lost).push_back(one.task);
  }
  if (tasks.empty()) return false;
  std::string names;
  const Generation next = NextInTerm(turn);
  for (Task& task : lost) {
    if (!PlaceTask(turn, tasks, &task)) return false;
    task.generation = next;
    ++task.restarts;
    names += (names.empty() ? "" : ", ") + RankName(task.rank);
    tasks.push_back(task);
  }
  MARK("the tasks of a lost node start on others");
  std::sort(tasks.begin(), tasks.end(),
            [](const Task& a, const Task& b) { return a.rank < b.rank; });
  const bool is_one = lost.size() == 1;
  turn.Emit(
      TasksPlaced{.tasks = std::move(tasks),
                  .reason = names + (is_one ? " starts on another node" : " start elsewhere") +
                            ", because " + why},
      {cause});
  return true;
}

bool EndBrokenPlacement(Turn& turn) {
  const JobState& state = turn.state();
  for (const TaskState& task : state.tasks) {
    const std::string why = WhyGone(state, task);
    if (why.empty()) continue;
    const RecordSeq cause = state.Find(task.task.node)->cause;
    if (MoveFromLostNode(turn, cause, why)) return true;
    MARK("all tasks are placed anew");
    turn.Emit(TasksPlaced{.tasks = {},
                          .reason = "all tasks start anew with new addresses, because " + why},
              {cause});
    return true;
  }
  return false;
}

// ---- ends of tasks ----

// The report of the task's present process; null: there is none.
const RankReport* ReportOf(Turn& turn, const Task& task) {
  const auto& ranks = turn.Link(task.node).ranks;
  const auto found = ranks.find(task.slot);
  const bool is_it = found != ranks.end() && found->second.generation == task.generation;
  return is_it ? &found->second : nullptr;
}

// Before a failure: what the job has done since the one before.
void NoteLeasedWork(Turn& turn) {
  Watch& watch = turn.watch();
  std::string work = LeasedWorkSinceFailure(watch);
  watch.leased_work_before = watch.leased_work;
  const auto& tasks = turn.state().tasks;
  const bool has_failed = std::any_of(tasks.begin(), tasks.end(), [](const TaskState& one) {
    return one.budget.failures_without_progress > 0;
  });
  if (work.empty() || !has_failed) return;
  MARK("leased work forgives failures of tasks");
  turn.Emit(ProgressMade{.evidence = std::move(work), .is_lasting = true},
            {turn.state().tasks_seq});
}

void EmitFailure(Turn& turn, const Task& task, const RankReport& report) {
  NoteLeasedWork(turn);
  ExitCause cause = report.exit;
  if (cause.is_success()) cause.headline = std::string(kServerEnded);
  turn.Emit(RankFailed{.node = task.node,
                       .node_name = turn.state().NameOf(task.node),
                       .generation = task.generation,
                       .rank = task.rank,
                       .step = report.step,
                       .step_count = report.step_count,
                       .charged = !cause.asked,
                       .explains = false,
                       .cause = cause,
                       .died_for = report.ended_for},
            {turn.state().tasks_seq});
}

bool NoteEnds(Turn& turn) {
  std::vector<Task> tasks = Tasks(turn.state());
  const RecordSeq before = turn.state().last_seq;
  std::string done;
  for (size_t i = 0; i < tasks.size(); ++i) {
    Task& task = tasks[i];
    if (task.is_done || turn.state().tasks[i].failure.value() != 0) continue;
    const RankReport* report = ReportOf(turn, task);
    if (report == nullptr || report->state != State::kExited) continue;
    if (report->exit.is_success() && MustEnd(task)) {
      task.is_done = true;
      done += (done.empty() ? "" : ", ") + RankName(task.rank);
    } else {
      EmitFailure(turn, task, *report);
    }
  }
  if (!done.empty()) {
    turn.Emit(TasksPlaced{.tasks = std::move(tasks), .reason = done + " is done"},
              {turn.state().tasks_seq});
  }
  return turn.state().last_seq != before;
}

bool EndIfDone(Turn& turn) {
  const JobState& state = turn.state();
  const bool is_done = std::all_of(state.tasks.begin(), state.tasks.end(), [](const auto& one) {
    return one.task.is_done || !MustEnd(one.task);
  });
  if (!is_done) return false;
  // A lost table server starts once more, to learn whether its snapshot has everything.
  const bool has_lost = std::any_of(state.tasks.begin(), state.tasks.end(),
                                    [](const auto& one) { return one.failure.value() != 0; });
  if (state.spec.tasks.has_tables() && has_lost) return false;
  const bool has_tables = state.spec.tasks.has_tables();
  const std::string who =
      has_tables ? "all workers are done" : "the chief and all workers are done";
  const std::string servers = has_tables                     ? "; the table servers are stopped"
                              : state.spec.tasks.servers > 0 ? "; the parameter servers are stopped"
                                                             : "";
  turn.Emit(
      StopDecided{.exit_code = 0, .grace = state.spec.timers.stop_grace, .reason = who + servers},
      {state.tasks_seq});
  return true;
}

// ---- rungs ----

RecoveryDecided Decision(const JobState& state, const Task& task, Rung rung) {
  RecoveryDecided decided;
  decided.rung = rung;
  decided.has_blamed = true;
  decided.blamed = task.node;
  decided.blamed_name = state.NameOf(task.node);
  return decided;
}

bool StopIfExhausted(Turn& turn) {
  const JobState& state = turn.state();
  for (const TaskState& task : state.tasks) {
    if (task.failure.value() == 0 || task.task.is_done) continue;
    BudgetVerdict verdict = JudgeTask(state.spec, task);
    if (!verdict.exhausted) continue;
    RecoveryDecided decided = Decision(state, task.task, Rung::kStop);
    decided.reason = verdict.reason;
    turn.Emit(std::move(decided), {task.failure});
    // Table servers write a last snapshot, as when the job is stopped.
    const bool has_tables = state.spec.tasks.has_tables();
    const Duration grace = has_tables ? state.spec.timers.stop_grace : Duration();
    turn.Emit(StopDecided{.exit_code = 1, .grace = grace, .reason = std::move(verdict.reason)},
              {state.decision.seq});
    return true;
  }
  return false;
}

// Starts failed tasks again, each at its old address.
bool RestartFailed(Turn& turn) {
  const JobState& state = turn.state();
  Watch& watch = turn.watch();
  std::vector<Task> tasks = Tasks(state);
  std::vector<RecordSeq> causes;
  std::string names;
  const bool has_failed = std::any_of(state.tasks.begin(), state.tasks.end(),
                                      [](const auto& one) { return one.failure.value() != 0; });
  if (!has_failed) return false;
  const Generation next = NextInTerm(turn);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskState& task = state.tasks[i];
    if (task.failure.value() == 0 || task.task.is_done) continue;
    const Instant due = NextStart(state.spec, task);
    if (turn.now() < due) {
      watch.settle_at = std::min(watch.settle_at, due);
      continue;
    }
    tasks[i].generation = next;
    ++tasks[i].restarts;
    names += (names.empty() ? "" : ", ") + RankName(task.task.rank);
    if (causes.size() < kIncidentCausesMax) causes.push_back(task.failure);
  }
  if (names.empty()) return false;
  MARK("a task restarts alone");
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].generation != next) continue;
    RecoveryDecided decided = Decision(state, tasks[i], Rung::kRestartProcess);
    decided.reason = RankName(tasks[i].rank) + " starts again at its old address; the others go on";
    turn.Emit(std::move(decided), {state.tasks[i].failure});
  }
  causes.push_back(state.decision.seq);
  turn.Emit(
      TasksPlaced{.tasks = std::move(tasks),
                  .reason = names + " runs as generation " + std::to_string(WorldNumber(next))},
      std::move(causes));
  return true;
}

void TellWhatRuns(Turn& turn) {
  const JobState& state = turn.state();
  uint32_t running = 0;
  uint32_t done = 0;
  std::string failed;
  for (const TaskState& task : state.tasks) {
    const RankReport* report = ReportOf(turn, task.task);
    if (task.task.is_done) {
      ++done;
    } else if (task.failure.value() != 0) {
      failed += "; " + RankName(task.task.rank) + " pauses before its next attempt";
    } else if (report != nullptr && report->state != State::kStarting) {
      ++running;
    }
  }
  turn.watch().pending = std::to_string(running) + " of " + Counted(state.tasks.size(), "task") +
                         " run" + (done > 0 ? ", " + std::to_string(done) + " are done" : "") +
                         failed;
}

}  // namespace

bool SettleTasks(Turn& turn) {
  turn.watch().settle_at = Instant::Max();
  // A node under notice keeps its tasks until it goes: each move would restart all tasks.
  turn.watch().leave_at = Instant::Max();
  if (turn.state().phase == Phase::kWaiting) return PlaceAll(turn);
  if (EndBrokenPlacement(turn) || NoteEnds(turn) || PlaceScaled(turn) || EndIfDone(turn) ||
      StopIfExhausted(turn) || RestartFailed(turn)) {
    return true;
  }
  TellWhatRuns(turn);
  return false;
}

void NoteVanishedTasks(Turn& turn, NodeId node, Generation carried_out) {
  for (const TaskState& one : turn.state().tasks) {
    const Task& task = one.task;
    if (task.node != node || task.generation > carried_out) continue;
    const auto& ranks = turn.Link(node).ranks;
    const auto known = ranks.find(task.slot);
    if (known != ranks.end() && known->second.generation >= task.generation) continue;
    MARK("a task vanished");
    RankReport report;
    report.generation = task.generation;
    report.rank = task.rank;
    report.local_rank = task.slot;
    report.state = State::kExited;
    report.exit.kind = ExitCause::Kind::kUnknown;
    report.exit.headline = "ended while no agent watched it";
    turn.Link(node).ranks[task.slot] = report;
  }
}

std::optional<Assignment> TaskAssignment(const JobState& state, NodeId node) {
  Assignment assignment;
  assignment.kind = Assignment::Kind::kRun;
  for (const TaskState& one : state.tasks) {
    const Task& task = one.task;
    assignment.cluster.push_back({.rank = task.rank, .host = task.host, .port = task.port});
    if (task.node != node) continue;
    assignment.tasks.push_back(task);
    assignment.tasks.back().is_done = false;  // the process has ended; the order stays the same
    assignment.generation = std::max(assignment.generation, task.generation);
  }
  if (assignment.tasks.empty()) return std::nullopt;
  // An order without a task that has ended must be newer than the one with it.
  if (state.spec.tasks.has_tables()) assignment.generation = state.generation;
  return assignment;
}

}  // namespace paceline::core
