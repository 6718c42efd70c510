// `paceline tasks`: the tasks of a job without a world, one a line.

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

void PrintTasks(Output& out, const wire::JobStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"TASK", "NODE", "STATE", "RESTARTS", "AGE", "PID", "ADDRESS", "NOTE"}};
  for (const wire::TaskStatus& task : status.tasks) {
    rows.push_back({task.name, Visible(task.node), task.state, std::to_string(task.restarts),
                    ToString(task.age), task.pid > 0 ? std::to_string(task.pid) : "-",
                    Visible(task.address), Visible(task.note)});
  }
  out.Rows(rows);
}

// The tasks of `paceline status --json`, with the job's name.
void PrintJsonOf(Output& out, const wire::JobStatus& status) {
  const nlohmann::ordered_json whole = ParseOrderedJson(wire::StatusJson(status));
  nlohmann::ordered_json json = {{"schema", "paceline.tasks/1"}, {"job", status.job_id}};
  json["tasks"] = whole.value("tasks", nlohmann::ordered_json::array());
  out.DataLine(PrintJson(json, {.indent = 2}));
}

}  // namespace

int RunTasks(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kStatusPatience);
  if (!status.ok()) return out.Fail(status.problem());
  if (status->tasks.empty()) {
    return out.Fail(
        {.code = "PL-E141",
         .what = "the job has no tasks",
         .where = status->job_id,
         .why = status->generation > 0 ? "it has a world" : "none is placed: " + status->pending,
         .fix = "paceline status"});
  }
  if (out.is_json()) {
    PrintJsonOf(out, *status);
  } else {
    PrintTasks(out, *status);
  }
  return kExitDone;
}

}  // namespace paceline::cli
