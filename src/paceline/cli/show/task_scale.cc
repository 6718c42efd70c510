#include "paceline/cli/show/task_scale.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kTasksScaleLine = "paceline tasks scale ps=4 worker=5";

Problem BadTaskWords(const std::vector<std::string>& words, std::string why) {
  return {.code = "PL-E300",
          .what = "paceline tasks does not understand these words",
          .where = JoinWith(words, " "),
          .why = std::move(why),
          .fix = std::string(kTasksScaleLine)};
}

// "scale", then KIND=N each.
Result<wire::ScaleRequest> TasksRequestOf(const std::vector<std::string>& words) {
  wire::ScaleRequest request{.why = "paceline tasks scale was typed"};
  if (words[0] != "scale") return BadTaskWords(words, "the only verb is scale");
  if (words.size() < 2) return BadTaskWords(words, "no number is given");
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view kind = word.substr(0, equals);
    const auto number = ParseWhole<uint32_t>(word.substr(std::min(equals + 1, word.size())));
    uint32_t* const to = kind == "worker" ? &request.workers
                         : kind == "ps"   ? &request.servers
                                          : nullptr;
    if (to == nullptr) {
      return BadTaskWords(words, Concat("\"", word, "\" is neither worker=N nor ps=N"));
    }
    if (!number || *number == 0 || *number > kTasksMax) {
      return BadTaskWords(words, Concat("\"", word, "\" needs a number from 1 to ", kTasksMax));
    }
    if (*to != 0) return BadTaskWords(words, Concat(kind, " is there twice"));
    *to = *number;
  }
  return request;
}

Problem TasksRefused(const JobPlace& place, const std::vector<std::string>& words,
                     const std::string& why) {
  return {.code = "PL-E301",
          .what = place.id + " cannot have these tasks",
          .where = JoinWith(words, " "),
          .why = Visible(why),
          .fix = "paceline tasks shows what the job has; paceline why PL-E301 says how many fit"};
}

// How many tasks of a kind the job has.
uint32_t TasksOf(const wire::JobStatus& status, TaskKind kind) {
  uint32_t count = 0;
  for (const wire::TaskStatus& task : status.tasks) {
    const auto rank = TaskOfName(task.name);
    count += rank && KindOfTask(*rank) == kind ? 1 : 0;
  }
  return count;
}

}  // namespace

FlagTable TasksFlags() {
  static constexpr Flag kFlags[] = {{.dest = "dry_run",
                                     .spellings = {"--dry-run"},
                                     .kind = FlagKind::kSwitch,
                                     .help = "of `scale`: only say what would happen"}};
  return kFlags;
}

int ScaleTasks(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  auto parsed = TasksRequestOf(words);
  if (!parsed.ok()) return out.Fail(parsed.problem());
  wire::ScaleRequest request = *parsed;
  request.dry_run = invocation.line.Has("dry_run");
  auto place = JobOf(invocation, JobUse::kChange);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kStatusPatience);
  if (!status.ok()) return out.Fail(status.problem());
  if (status->phase == "finished") {
    return out.Fail(TasksRefused(*place, words, "the job has ended"));
  }
  const auto reply = AskToScale(*place, request);
  if (!reply.ok()) return out.Fail(reply.problem());
  if (!reply->refusal.empty()) return out.Fail(TasksRefused(*place, words, reply->refusal));
  const uint32_t workers = TasksOf(*status, TaskKind::kWorker);
  const uint32_t servers = TasksOf(*status, TaskKind::kPs);
  if (out.is_json()) {
    const nlohmann::ordered_json json = {
        {"schema", "paceline.tasks_scale/1"}, {"job", status->job_id},
        {"workers_before", workers},          {"servers_before", servers},
        {"workers", reply->workers},          {"servers", reply->servers},
        {"dry_run", request.dry_run}};
    out.DataLine(PrintJson(json, {.indent = 2}));
    return kExitDone;
  }
  const std::string change =
      Concat("from ", Counted(workers, "worker"), " and ", Counted(servers, "table server"), " to ",
             Counted(reply->workers, "worker"), " and ", Counted(reply->servers, "table server"),
             reply->servers == servers ? "" : "; partitions move while it trains");
  if (request.dry_run) {
    out.DataLine("the job would go " + change);
  } else {
    out.Say("the job goes " + change);
  }
  return kExitDone;
}

}  // namespace paceline::cli
