// `paceline ps`: the jobs and kept-warm starters of this user on this host.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/job/outcome.h"

namespace paceline::cli {
namespace {

constexpr Flag kPsFlags[] = {
    {.dest = "all",
     .spellings = {"-a", "--all"},
     .kind = FlagKind::kSwitch,
     .help = "also jobs that have ended"},
};

// The join string is left out: it gives control over the job, and people paste output of `ps` into
// tickets.
std::vector<std::string> WithoutSecrets(std::vector<std::string> argv) {
  constexpr std::string_view kFlag = "--join";
  constexpr std::string_view kHidden = "(hidden)";
  for (size_t i = 0; i < argv.size(); ++i) {
    if (argv[i] == kFlag && i + 1 < argv.size()) argv[i + 1] = kHidden;
    if (argv[i].starts_with("--join=")) argv[i] = std::string(kFlag) + "=" + std::string(kHidden);
    if (argv[i].find("paceline-join:") != std::string::npos) argv[i] = kHidden;
  }
  return argv;
}

// Seconds from the job's start to its end, or to now.
std::optional<double> SecondsOf(const JobPlace& job, const std::optional<Outcome>& outcome) {
  const double now = static_cast<double>(WallNow().nanoseconds()) / 1e9;
  const std::optional<double> until = outcome.has_value() ? outcome->at : now;
  if (job.created <= 0 || !until.has_value()) return std::nullopt;
  return std::max(0.0, *until - job.created);
}

std::string StartText(double created) {
  if (created <= 0) return "-";
  const auto seconds = static_cast<std::time_t>(created);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string LengthText(const std::optional<double>& seconds) {
  if (!seconds.has_value()) return "-";
  return *seconds < 1 ? "under 1 s" : ToString(Duration::Seconds(std::llround(*seconds)));
}

std::string ResultText(const std::optional<Outcome>& outcome) {
  if (!outcome.has_value()) return "-";
  return outcome->end.has_value() ? "exit " + std::to_string(outcome->end->exit_code)
                                  : "not finished";
}

nlohmann::ordered_json JobJson(const JobPlace& job, const std::optional<Outcome>& outcome) {
  const bool is_known = outcome.has_value() && outcome->end.has_value();
  const std::optional<double> seconds = SecondsOf(job, outcome);
  using Json = nlohmann::ordered_json;
  Json json;
  json["id"] = job.id;
  json["name"] = job.name;
  json["running"] = job.is_running();
  json["run_dir"] = job.run_dir;
  json["cwd"] = job.cwd;
  json["argv"] = WithoutSecrets(job.argv);
  json["master_pid"] = job.master_pid;
  json["launcher_pid"] = job.launcher_pid;
  json["created"] = job.created;
  json["seconds"] = seconds.has_value() ? Json(*seconds) : Json();
  json["exit_code"] = is_known ? Json(outcome->end->exit_code) : Json();
  json["reason"] = is_known ? Json(outcome->end->reason) : Json();
  return json;
}

}  // namespace

FlagTable PsFlags() { return kPsFlags; }

int RunPs(Invocation& invocation) {
  Output& out = invocation.out;
  const bool all = invocation.line.Has("all");
  const std::string root = RuntimeDirectory(invocation.environment);
  if (Check problem = CheckRuntimeDirectory(root)) return out.Fail(*problem);
  nlohmann::ordered_json json;
  json["schema"] = "paceline.ps/1";
  json["jobs"] = nlohmann::json::array();
  json["starters"] = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "STATE", "MASTER", "LAUNCHER", "STARTED", "LASTED", "RESULT", "RUN DIR"}};
  for (const JobPlace& job : KnownJobs(invocation.environment)) {
    if (!all && !job.is_running()) continue;
    const auto outcome = job.is_running() ? std::nullopt : std::optional(OutcomeOf(job));
    json["jobs"].push_back(JobJson(job, outcome));
    const std::string state = job.is_run_dir_gone ? "running, its run directory is gone"
                              : job.is_running()  ? "running"
                                                  : "ended";
    const auto pid = [](int number, bool is_alive) {
      return is_alive ? std::to_string(number) : "-";
    };
    rows.push_back({Visible(job.id), state, pid(job.master_pid, job.has_master()),
                    pid(job.launcher_pid, job.has_launcher()), StartText(job.created),
                    LengthText(SecondsOf(job, outcome)), ResultText(outcome),
                    Visible(job.run_dir)});
  }
  for (const StarterPlace& starter : KnownStarters(invocation.environment)) {
    json["starters"].push_back({{"key", starter.key},
                                {"pid", starter.pid},
                                {"keep_warm_seconds", starter.keep_warm_seconds}});
    rows.push_back({"(starter " + Clip(Visible(starter.key), 8) + ")", "warm",
                    std::to_string(starter.pid), "-", "-", "-", "-", "-"});
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else if (rows.size() > 1) {
    out.Rows(rows);
  } else {
    out.Say("no job of yours runs on this host; looked into " +
            JoinWith(RuntimeDirectories(invocation.environment), ", "));
  }
  return kExitDone;
}

}  // namespace paceline::cli
