#include "paceline/core/tasks/task_budget.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"

namespace paceline::core {

namespace {

std::string HowItFailed(const TaskState& task) {
  const std::string& what = task.budget.last_headline;
  return RankName(task.task.rank) + (TellsOfRank(what) ? " " : ": ") + what;
}

}  // namespace

const TaskState* FindTask(const JobState& state, Rank rank) {
  const auto found = std::find_if(state.tasks.begin(), state.tasks.end(),
                                  [&](const TaskState& one) { return one.task.rank == rank; });
  return found == state.tasks.end() ? nullptr : &*found;
}

void FailTask(const Record& record, const RankFailed& fact, JobState* state) {
  for (TaskState& task : state->tasks) {
    const bool is_it = task.task.rank == fact.rank && task.task.generation == fact.generation;
    if (!is_it || task.failure.value() != 0) continue;
    task.failure = record.seq;
    if (!fact.charged) return;
    BudgetState& budget = task.budget;
    const Duration lasted = record.at - task.since;
    if (lasted >= kLongAttemptMin) budget.failures_without_progress = 0;
    const bool stale = lasted >= kQuietProgress;
    CountFailure(budget, record.at, fact, stale);
    ++state->budget.charged_failures;
    return;
  }
}

void RefillTasks(JobState* state) {
  for (TaskState& task : state->tasks) task.budget.failures_without_progress = 0;
}

void PlaceTasks(const Record& record, const TasksPlaced& fact, JobState* state) {
  const bool is_first = state->tasks.empty();
  std::vector<TaskState> placed;
  placed.reserve(fact.tasks.size());
  for (const Task& task : fact.tasks) {
    TaskState next{.task = task,
                   .budget = {},
                   .since = record.at,
                   .placed = record.seq,
                   .failure = RecordSeq()};
    if (const TaskState* former = FindTask(*state, task.rank)) {
      next.budget = former->budget;
      if (former->task.generation == task.generation) {
        next.since = former->since;
        next.placed = former->placed;
        next.failure = former->failure;
      } else {
        ++state->restart_count;
      }
    }
    state->generation = std::max(state->generation, task.generation);
    placed.push_back(std::move(next));
  }
  // An agent takes an order without one of its tasks only if the order is newer than the last one.
  const bool has_ended =
      !placed.empty() &&
      std::any_of(state->tasks.begin(), state->tasks.end(), [&](const auto& was) {
        return std::none_of(placed.begin(), placed.end(),
                            [&](const TaskState& one) { return one.task.rank == was.task.rank; });
      });
  if (has_ended) state->generation = state->generation.next();
  state->tasks = std::move(placed);
  if (fact.tasks.empty()) {
    state->waiting_for = fact.reason;
  } else if (is_first) {
    state->tasks_seq = record.seq;
    state->waiting_for.clear();
  }
}

BudgetVerdict JudgeTask(const JobSpec& spec, const TaskState& task) {
  const BudgetState& budget = task.budget;
  if (budget.last_is_final) return {true, "no restart can mend this: " + HowItFailed(task)};
  if (spec.max_restarts) {
    if (budget.charged_failures <= *spec.max_restarts) return {};
    return {true, "failure " + std::to_string(budget.charged_failures) +
                      " of the task is more than --max-restarts " +
                      std::to_string(*spec.max_restarts) + " allows: " + HowItFailed(task)};
  }
  if (budget.same_failure_count >= AlikeMax(spec)) {
    MARK("a task fails in the same way again and again");
    return {true, HowItFailed(task) + " (" + std::to_string(budget.same_failure_count) +
                      " times without progress)"};
  }
  if (budget.failures_without_progress < AlikeMax(spec) + kUnlikeFailuresExtra) return {};
  MARK("a task fails too often");
  return {true, std::to_string(budget.failures_without_progress) +
                    " failures of a task without progress, the last one: " + HowItFailed(task)};
}

Instant NextStart(const JobSpec& spec, const TaskState& task) {
  return task.since + RestartDelay(spec, task.budget.failures_without_progress);
}

}  // namespace paceline::core
