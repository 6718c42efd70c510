#include "paceline/cli/job/master_end.h"

#include <sys/wait.h>

#include "paceline/agent/ranks/exit_cause.h"
#include "paceline/base/file_text.h"
#include "paceline/base/instant.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/model/job_file_limit.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kKey[] = "master_end";

std::string HowText(const MasterEnd& end) {
  if (!end.is_known) return "ended, and its launcher could not see how";
  if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) {
    return "was killed by SIGKILL from outside (`dmesg -T` names the kernel's own kills)";
  }
  if (WIFSIGNALED(end.status)) {
    return "was ended by " + agent::SignalName(WTERMSIG(end.status));
  }
  return Concat("exited with code ", WEXITSTATUS(end.status));
}

}  // namespace

void KeepMasterEnd(const std::string& run_dir, const MasterEnd& end) {
  const std::string path = run_dir + "/job.json";
  Json job = ParseOrderedJson(ReadText(path, kJobFileBytesMax));
  if (!job.is_object()) return;
  job[kKey] = {{"pid", end.pid},
               {"status", end.is_known ? Json(end.status) : Json()},
               {"time", static_cast<double>(end.at_ns) / 1e9}};
  ReplaceFileDurably(path, PrintJson(job, {.indent = 2}) + "\n", 0600).IgnoreError();
}

std::string MasterEndText(const std::string& run_dir, int64_t took_over_ns) {
  constexpr int64_t kMinuteNs = 60'000'000'000;
  const nlohmann::json job = ParseJson(ReadText(run_dir + "/job.json", kJobFileBytesMax));
  const auto told = job.is_object() ? job.find(kKey) : job.end();
  if (told == job.end() || !told->is_object()) return "";
  const MasterEnd end{.pid = JsonInt<int>(*told, "pid"),
                      .status = JsonInt<int>(*told, "status"),
                      .is_known = told->contains("status") && (*told)["status"].is_number(),
                      .at_ns = static_cast<int64_t>(JsonNumber(*told, "time") * 1e9)};
  const bool is_its_own = end.at_ns <= took_over_ns && took_over_ns - end.at_ns < kMinuteNs;
  if (!is_its_own) return "";
  return Concat("the master before it, process ", end.pid, ", ", HowText(end), " (",
                TimeOfDay(end.at_ns), "); its launcher started this one");
}

}  // namespace paceline::cli
