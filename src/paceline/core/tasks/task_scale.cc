#include "paceline/core/tasks/task_scale.h"

#include <algorithm>
#include <set>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/next_world.h"
#include "paceline/core/tasks/task_budget.h"

namespace paceline::core {
namespace {

uint32_t SlotsOf(const JobState& state) {
  uint32_t slots = 0;
  for (const auto& [id, node] : state.nodes) slots += node.IsMember() ? node.slots : 0;
  return slots;
}

}  // namespace

bool PlaceTask(Turn& turn, const std::vector<Task>& others, Task* task) {
  const NodeState* best = nullptr;
  size_t fewest = 0;
  uint32_t best_slot = 0;
  for (const auto& [id, node] : turn.state().nodes) {
    if (!node.IsMember()) continue;
    std::set<uint32_t> used;
    for (const Task& other : others) {
      if (other.node == id) used.insert(other.slot);
    }
    uint32_t slot = 0;
    while (used.contains(slot)) ++slot;
    const bool has_room = slot < std::min<size_t>(node.slots, turn.Link(id).task_ports.size());
    if (!has_room || (best != nullptr && used.size() >= fewest)) continue;
    best = &node;
    fewest = used.size();
    best_slot = slot;
  }
  if (best == nullptr) return false;
  task->node = best->id;
  task->slot = best_slot;
  task->host = best->address;
  task->port = turn.Link(best->id).task_ports[best_slot];
  return true;
}

std::vector<Rank> WantedTasks(const JobState& state) {
  TaskSpec spec = state.spec.tasks;
  if (spec.has_tables()) spec.servers = std::max(spec.servers, state.routing.end());
  return TaskRanks(spec);
}

std::string WhyNotTasks(const JobState& state, uint32_t workers, uint32_t servers) {
  if (state.phase == Phase::kEmpty) return "no job was submitted yet";
  if (state.phase == Phase::kStopping) return "the job stops";
  if (state.phase == Phase::kFinished) return "the job has ended";
  if (!state.spec.tasks.is_on()) return "it has a world: paceline scale changes its nodes";
  if (!state.spec.tasks.has_tables()) {
    return "each of its tasks knows the addresses of all others from its start, and TensorFlow "
           "takes no new ones";
  }
  if (workers == 0) return "it needs a worker";
  if (servers == 0) return "its tables need a server";
  if (state.phase != Phase::kTasks) return "its tasks are not placed yet";
  const uint32_t slots = SlotsOf(state);
  if (uint64_t{workers} + servers <= slots) return "";
  return "it has " + Counted(slots, "slot") + " for tasks, and " + Counted(workers, "worker") +
         " and " + Counted(servers, "server") + " need " + std::to_string(workers + servers);
}

void OnTasksRequested(Turn& turn, const TasksRequested& event) {
  const JobState& state = turn.state();
  const TaskSpec& now = state.spec.tasks;
  const bool is_new = now.workers != event.workers || now.servers != event.servers;
  if (!is_new || !WhyNotTasks(state, event.workers, event.servers).empty()) return;
  MARK("a number of tasks is chosen");
  turn.Emit(TasksScaled{.workers = event.workers,
                        .servers = event.servers,
                        .reason = "from " + Counted(now.workers, "worker") + " and " +
                                  Counted(now.servers, "table server") + " to " +
                                  Counted(event.workers, "worker") + " and " +
                                  Counted(event.servers, "table server") + ": " + event.why});
}

void ScaleTasks(const Record& record, const TasksScaled& fact, JobState* state) {
  if (fact.workers == 0 || fact.servers == 0) return;  // only in a damaged journal
  state->spec.tasks.workers = fact.workers;
  state->spec.tasks.servers = fact.servers;
  state->moves_seq = record.seq;
}

void MoveTables(const Record& record, const TablesMoved& fact, JobState* state) {
  state->routing.Move(fact.partitions, fact.to);
  state->moves_seq = record.seq;
}

bool PlaceScaled(Turn& turn) {
  const JobState& state = turn.state();
  if (!state.spec.tasks.has_tables()) return false;
  const std::vector<Rank> wanted = WantedTasks(state);
  std::vector<Task> tasks;
  std::string ended;
  std::string started;
  for (const TaskState& one : state.tasks) {
    if (std::find(wanted.begin(), wanted.end(), one.task.rank) != wanted.end()) {
      tasks.push_back(one.task);
    } else {
      ended += (ended.empty() ? "" : ", ") + RankName(one.task.rank);
    }
  }
  const Generation next = NextInTerm(turn);
  for (const Rank rank : wanted) {
    if (FindTask(state, rank) != nullptr) continue;
    Task task{.rank = rank, .generation = next};
    if (!PlaceTask(turn, tasks, &task)) break;
    tasks.push_back(std::move(task));
    started += (started.empty() ? "" : ", ") + RankName(rank);
  }
  if (ended.empty() && started.empty()) return false;
  std::sort(tasks.begin(), tasks.end(),
            [](const Task& a, const Task& b) { return a.rank < b.rank; });
  MARK("tasks start or end while the others go on");
  const auto several = [](const std::string& names) {
    return names.find(',') != std::string::npos;
  };
  std::string reason =
      started.empty() ? ""
                      : started + (several(started) ? " start" : " starts") + ", the others go on";
  if (!ended.empty()) {
    reason += (reason.empty() ? "" : "; ") + ended + (several(ended) ? " end" : " ends") +
              ", because the job has fewer tasks now";
  }
  turn.Emit(TasksPlaced{.tasks = std::move(tasks), .reason = std::move(reason)}, {state.moves_seq});
  return true;
}

RoutingNews NewsFor(const JobState& state) {
  const uint64_t id = state.moves_seq.value();
  return {.id = id,
          .routing = state.routing,
          .move = NextTableMove(state.routing, state.spec.tasks.servers, id)};
}

std::optional<TablesMoved> MoveBy(const JobState& state, const PartitionsTaken& taken) {
  if (state.phase != Phase::kTasks || taken.id != state.moves_seq.value()) return std::nullopt;
  const std::optional<TableMove> move = NewsFor(state).move;
  if (!move || move->from != taken.from || move->to != taken.to) return std::nullopt;
  if (taken.count == 0 || taken.count > move->partitions.size()) return std::nullopt;
  const TaskState* const from = FindTask(state, TaskRank(TaskKind::kPs, taken.from));
  const TaskState* const to = FindTask(state, TaskRank(TaskKind::kPs, taken.to));
  if (from == nullptr || to == nullptr || from->task.generation.value() != taken.from_generation ||
      to->task.generation.value() != taken.to_generation) {
    MARK("partitions were given or taken by an earlier process");
    return std::nullopt;
  }
  // The target has ended, and its memory with it. The source still has the partitions.
  if (to->failure.value() != 0) return std::nullopt;
  return TablesMoved{
      .from = taken.from,
      .to = taken.to,
      .partitions = {move->partitions.begin(), move->partitions.begin() + taken.count},
      .reason = Counted(taken.count, "partition") + " of the tables moved from " +
                RankName(from->task.rank) + " to " + RankName(to->task.rank)};
}

void OnPartitionsTaken(Turn& turn, const PartitionsTaken& event) {
  std::optional<TablesMoved> moved = MoveBy(turn.state(), event);
  if (!moved) return;
  MARK("partitions move");
  turn.Emit(*std::move(moved), {turn.state().moves_seq});
}

}  // namespace paceline::core
