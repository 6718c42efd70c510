// `paceline tasks`: the tasks of a job without a world, one a line.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/bytes_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/show/server_counts.h"
#include "paceline/cli/show/task_scale.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

constexpr int kServerPatienceMs = 500;
constexpr double kNsInMs = 1e6;

// What the job's table servers say, by the name of their task.
using CountsByTask = std::map<std::string, ServerCounts>;

CountsByTask AskServers(const Invocation& invocation, const JobPlace& place,
                        const wire::JobStatus& status) {
  CountsByTask served;
  for (const wire::TaskStatus& task : status.tasks) {
    const auto rank = TaskOfName(task.name);
    if (!rank || KindOfTask(*rank) != TaskKind::kPs || task.state != "running") continue;
    const auto counts = CountsOfServer(invocation.environment, place.run_dir, NumberOfTask(*rank),
                                       kServerPatienceMs);
    if (counts) served[task.name] = *counts;
  }
  return served;
}

void PrintTasks(Output& out, const wire::JobStatus& status, const CountsByTask& served) {
  std::vector<std::string> head = {"TASK", "NODE", "STATE", "RESTARTS", "AGE", "PID", "ADDRESS"};
  if (!served.empty())
    head = {"TASK",       "NODE", "STATE", "RESTARTS", "AGE",    "PID",
            "PARTITIONS", "ROWS", "BYTES", "PUSHES",   "LONGEST"};
  head.emplace_back("NOTE");
  std::vector<std::vector<std::string>> rows = {head};
  for (const wire::TaskStatus& task : status.tasks) {
    std::vector<std::string> row = {
        task.name,          Visible(task.node),
        task.state,         std::to_string(task.restarts),
        ToString(task.age), task.pid > 0 ? std::to_string(task.pid) : "-"};
    const auto counts = served.find(task.name);
    if (served.empty()) {
      row.push_back(Visible(task.address));
    } else if (counts == served.end()) {
      row.insert(row.end(), 5, "-");
    } else {
      const ServerCounts& one = counts->second;
      const auto longest = Duration::Nanoseconds(static_cast<int64_t>(one.longest_ns));
      row.insert(row.end(),
                 {std::to_string(one.partitions), std::to_string(one.rows()),
                  BytesText(one.bytes()), std::to_string(one.applied), ToString(longest)});
    }
    row.push_back(Visible(task.note));
    rows.push_back(std::move(row));
  }
  out.Rows(rows);
}

// The tasks of `paceline status --json`, with the job's name.
void PrintJsonOf(Output& out, const wire::JobStatus& status, const CountsByTask& served) {
  const nlohmann::ordered_json whole = ParseOrderedJson(wire::StatusJson(status));
  nlohmann::ordered_json json = {{"schema", "paceline.tasks/1"}, {"job", status.job_id}};
  json["tasks"] = whole.value("tasks", nlohmann::ordered_json::array());
  for (nlohmann::ordered_json& task : json["tasks"]) {
    const auto counts = served.find(task.value("name", ""));
    if (counts == served.end()) continue;
    task["partitions"] = counts->second.partitions;
    task["rows"] = counts->second.rows();
    task["bytes"] = counts->second.bytes();
    task["pushes"] = counts->second.applied;
    task["longest_ms"] = static_cast<double>(counts->second.longest_ns) / kNsInMs;
  }
  out.DataLine(PrintJson(json, {.indent = 2}));
}

}  // namespace

int RunTasks(Invocation& invocation) {
  if (!invocation.line.positionals.empty()) return ScaleTasks(invocation);
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
  const CountsByTask served = AskServers(invocation, *place, *status);
  if (out.is_json()) {
    PrintJsonOf(out, *status, served);
  } else {
    PrintTasks(out, *status, served);
    if (status->phase != "finished" && status->master_pid == 0) {
      out.Say("no master answers: this is what the journal says; paceline status says more");
    }
  }
  return kExitDone;
}

}  // namespace paceline::cli
