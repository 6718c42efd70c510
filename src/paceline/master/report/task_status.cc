#include "paceline/master/report/task_status.h"

#include <algorithm>
#include <string>

#include "paceline/base/text.h"

namespace paceline::master {
namespace {

// The newest report of the task's present process; null: none has come.
const RankReport* NewestReport(const core::Job& job, const Task& task) {
  const auto link = job.links().find(task.node);
  if (link == job.links().end()) return nullptr;
  const auto found = link->second.ranks.find(task.slot);
  const bool is_it =
      found != link->second.ranks.end() && found->second.generation == task.generation;
  return is_it ? &found->second : nullptr;
}

std::string StateOf(const core::JobState& state, const core::TaskState& task,
                    const RankReport* report) {
  if (task.task.is_done) return "done";
  if (state.phase == core::Phase::kFinished) return "ended";
  if (task.failure.value() != 0) return "failed";
  if (report == nullptr || report->state == RankReport::State::kStarting) return "starting";
  return report->state == RankReport::State::kExited ? "ended" : "running";
}

}  // namespace

std::vector<wire::TaskStatus> TasksOf(const core::Job& job, Instant now) {
  const core::JobState& state = job.state();
  std::vector<wire::TaskStatus> tasks;
  for (const core::TaskState& one : state.tasks) {
    const RankReport* report = NewestReport(job, one.task);
    wire::TaskStatus& told = tasks.emplace_back();
    told.name = RankName(one.task.rank);
    told.node = state.NameOf(one.task.node);
    told.state = StateOf(state, one, report);
    told.restarts = one.task.restarts;
    told.age = std::max(Duration(), now - one.since);
    told.generation = one.task.generation.value();
    told.address = Concat(one.task.host, ":", one.task.port);
    if (report != nullptr && told.state == "running") told.pid = report->pid;
    if (one.budget.charged_failures > 0) told.note = "last failure: " + one.budget.last_headline;
  }
  return tasks;
}

}  // namespace paceline::master
