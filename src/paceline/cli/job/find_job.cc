#include "paceline/cli/job/find_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <set>
#include <string_view>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

constexpr size_t kListWidth = 400;
constexpr char kNameOne[] = "the same command with --job and one of these names";

using Places = std::vector<const JobPlace*>;  // newest first

// If several `paceline run` of one job are on this host, the one that also runs the master.
std::vector<JobPlace> OncePerJob(const std::vector<JobPlace>& places) {
  std::vector<JobPlace> jobs;
  for (const JobPlace& place : places) {
    const auto known = std::find_if(jobs.begin(), jobs.end(),
                                    [&](const JobPlace& job) { return job.id == place.id; });
    if (known == jobs.end()) {
      jobs.push_back(place);
    } else if (!known->has_master() && place.has_master()) {
      *known = place;
    }
  }
  return jobs;
}

Places RunningOf(const Places& jobs) {
  Places running;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(running),
               [](const JobPlace* job) { return job->is_running(); });
  return running;
}

// "lone-17a147 (started in /data/lone), …".
std::string ListOf(const Places& jobs) {
  std::string list;
  for (const JobPlace* job : jobs) {
    Append(&list, list.empty() ? "" : ", ", Visible(job->id), " (started in ", Visible(job->cwd),
           ")");
  }
  return Clip(list, kListWidth);
}

// The fix names no job, because a user who pastes it might stop the wrong one.
Problem WhichOne(const Places& jobs, const std::string& where, const std::string& said) {
  return Problem{.code = "PL-E023",
                 .what = Concat(jobs.size(), " jobs ", said, "; say which one"),
                 .where = where,
                 .why = ListOf(jobs),
                 .fix = kNameOne};
}

constexpr char kNameAny[] = "the same command with --job and a name of `paceline ps --all`";
constexpr char kNothingRuns[] = "nothing to do; `paceline ps --all` lists the jobs that have ended";

Problem NoJob(const Environment& environment, JobUse use) {
  return Problem{
      .code = "PL-E022",
      .what = "no job was found",
      .where = JoinWith(RuntimeDirectories(environment), ", "),
      .why = "no job of this user is known there",
      .fix = use == JobUse::kChange ? kNothingRuns : "paceline run train.py, or --job RUN_DIR"};
}

Problem NoJobHere(const Places& running, const std::string& directory, const char* if_none_runs) {
  return Problem{.code = "PL-E022",
                 .what = "no job was started in this directory",
                 .where = directory,
                 .why = running.empty() ? "no job of yours runs on this host"
                                        : "jobs of other directories run: " + ListOf(running),
                 .fix = running.empty() ? if_none_runs : kNameOne};
}

// Refuses `asked` for a command that changes a job: the ids of the jobs `begun` only begin with it.
Problem NotWhole(const Places& begun, const std::string& asked) {
  return Problem{.code = "PL-E024",
                 .what = Concat("no job has the id or name ", Visible(asked)),
                 .where = "--job " + ShellWord(asked),
                 .why = Concat("a command that changes a job takes only a whole id or name; these "
                               "ids begin with it: ",
                               ListOf(begun)),
                 .fix = kNameOne};
}

// A whole name wins over names that only begin with it; of several jobs, those that run.
Result<FoundJob> FindNamed(const std::vector<JobPlace>& jobs, const std::string& asked,
                           JobUse use) {
  Places named;
  Places begun;
  for (const JobPlace& job : jobs) {
    if (job.name == asked) named.push_back(&job);
    if (job.id.starts_with(asked)) begun.push_back(&job);
  }
  const bool is_whole = !named.empty();
  if (use == JobUse::kChange && !is_whole && !begun.empty()) return NotWhole(begun, asked);
  const Places all = is_whole ? named : begun;
  const Places running = RunningOf(all);
  const Places& found = running.empty() ? all : running;
  if (found.size() == 1) return FoundJob{*found.front()};
  if (found.empty()) {
    return NoSuchJob(asked, "it is neither a known id or name nor a run directory");
  }
  return WhichOne(found, "--job " + ShellWord(asked),
                  is_whole ? "have that name" : "have ids that begin with that");
}

// "note: this is x-11, which has ended; x-12 (started in /a) runs, and --job names it", where the
// command takes another job than `others`.
std::string TooText(Places others, const JobPlace& taken) {
  std::erase_if(others, [&](const JobPlace* job) { return job->id == taken.id; });
  if (others.empty()) return "";
  const bool is_one = others.size() == 1;
  return Concat("note: this is ", Visible(taken.id),
                taken.is_running() ? "; " : ", which has ended; ", ListOf(others),
                is_one ? " runs" : " run", taken.is_running() ? " too" : "",
                is_one ? ", and --job names it" : ", and --job names one of them");
}

// `here`: the jobs of the directory, of which there is one at least.
Result<FoundJob> OneOfHere(const Places& here, const Places& running, JobUse use,
                           const std::string& directory) {
  const Places here_running = RunningOf(here);
  const bool is_newest = use == JobUse::kShow || use == JobUse::kHere;
  if (is_newest || here_running.empty()) {
    const JobPlace& newest = *here.front();
    // A command that needs a running job may have meant one of another directory.
    return FoundJob{newest, TooText(is_newest ? here_running : running, newest)};
  }
  if (here_running.size() == 1) return FoundJob{*here_running.front()};
  return WhichOne(here_running, directory, "of this directory run");
}

// `all` has one job at least.
Result<FoundJob> OneOfElsewhere(const Places& all, const Places& running,
                                const Environment& environment) {
  if (running.size() > 1) return WhichOne(running, RuntimeDirectory(environment), "run");
  const JobPlace& taken = running.empty() ? *all.front() : *running.front();
  return FoundJob{taken,
                  Concat("note: no job was started in this directory; this is ", ListOf({&taken}))};
}

}  // namespace

bool IsOfDirectory(const JobPlace& place, const std::string& directory) {
  if (directory.empty()) return false;
  return place.cwd == directory || place.run_dir == directory ||
         directory.starts_with(place.run_dir + "/");
}

std::string CurrentDirectory() {
  char path[PATH_MAX];
  return getcwd(path, sizeof(path)) == nullptr ? "" : path;
}

Result<FoundJob> FindJob(const Environment& environment, const std::string& asked, JobUse use,
                         const std::string& directory) {
  const std::vector<JobPlace> places = KnownJobs(environment);
  const std::vector<JobPlace> jobs = OncePerJob(places);
  if (!asked.empty()) {
    for (const JobPlace& job : jobs) {
      if (job.id == asked || (job.is_run_dir_gone && job.run_dir == asked)) return FoundJob{job};
    }
    struct stat status {};
    const bool is_there = stat(asked.c_str(), &status) == 0;
    const bool is_hidden = !is_there && errno == EACCES && asked.find('/') != std::string::npos;
    if (!is_hidden && !(is_there && S_ISDIR(status.st_mode))) return FindNamed(jobs, asked, use);
    auto place = use == JobUse::kChange ? ReadOwnJobPlace(asked) : ReadJobPlace(asked);
    if (!place.ok()) return place.problem();
    return FoundJob{*std::move(place)};
  }
  std::set<std::string_view> ids;  // a host may take part in a job from several directories
  for (const JobPlace& place : places) {
    if (IsOfDirectory(place, directory)) ids.insert(place.id);
  }
  Places all;
  Places here;
  for (const JobPlace& job : jobs) {
    all.push_back(&job);
    if (ids.contains(job.id)) here.push_back(&job);
  }
  const Places running = RunningOf(all);
  if (!here.empty()) return OneOfHere(here, running, use, directory);
  if (all.empty()) return NoJob(environment, use);
  if (use == JobUse::kChange) return NoJobHere(running, directory, kNothingRuns);
  if (use == JobUse::kHere) return NoJobHere(running, directory, kNameAny);
  return OneOfElsewhere(all, running, environment);
}

}  // namespace paceline::cli
