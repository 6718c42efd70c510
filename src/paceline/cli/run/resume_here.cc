#include "paceline/cli/run/resume_here.h"

#include <algorithm>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/find_job.h"
#include "paceline/cli/job/outcome.h"
#include "paceline/cli/run/flags.h"

namespace paceline::cli {
namespace {

constexpr size_t kListWidth = 400;
constexpr char kNameOne[] =
    "paceline run --resume --run-dir JOB; `paceline ps --all` lists the jobs";

}  // namespace

Result<JobPlace> JobToResume(const Environment& environment, const std::string& directory) {
  std::vector<JobPlace> found;
  std::vector<std::string> names;
  std::vector<std::string> running;
  for (const JobPlace& job : KnownJobs(environment)) {
    if (!IsOfDirectory(job, directory) || job.is_run_dir_gone) continue;
    if (job.has_launcher()) {
      running.push_back(Visible(job.id));
      continue;
    }
    // A master without its launcher gets a new one.
    const Outcome outcome = job.has_master() ? Outcome{} : OutcomeOf(job);
    if (outcome.end.has_value() && outcome.end->exit_code == 0) continue;
    found.push_back(job);
    names.push_back(Concat(Visible(job.id), " in ", Visible(job.run_dir)));
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return Problem{.code = "PL-E026",
                   .what = "no job of this directory can be resumed",
                   .where = directory,
                   .why = running.empty() ? "none has failed, was stopped or was killed"
                                          : Concat("still running: ", JoinWith(running, ", ")),
                   .fix = running.empty() ? kNameOne : "paceline attach"};
  }
  return Problem{.code = "PL-E023",
                 .what = Concat(found.size(), " jobs of this directory can be resumed; say which"),
                 .where = directory,
                 .why = Clip(JoinWith(names, ", "), kListWidth),
                 .fix = "paceline run --resume --run-dir DIR, with one of these directories"};
}

Check TakeJobToResume(Invocation& invocation) {
  const bool is_named = !invocation.settings.Text("job.run_dir").empty();
  if (!invocation.line.Has("resume") || is_named) return std::nullopt;
  const auto job = JobToResume(invocation.environment, CurrentDirectory());
  if (!job.ok()) return job.problem();
  const FlagTable flags = RunFlags();
  const auto flag = std::find_if(flags.begin(), flags.end(),
                                 [](const Flag& one) { return one.dest == "run_dir"; });
  if (flag == flags.end()) return std::nullopt;
  invocation.line.given.push_back({.flag = &*flag, .value = job->run_dir});
  auto settings = LoadSettings(StandardSources(invocation.environment, &invocation.line));
  if (!settings.ok()) return settings.problem();
  invocation.settings = *std::move(settings);
  invocation.out.Say(Concat("resuming ", Visible(job->id),
                            ", the only job of this directory that "
                            "can be resumed: ",
                            Visible(job->run_dir)));
  return std::nullopt;
}

}  // namespace paceline::cli
