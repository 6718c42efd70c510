#include "paceline/cli/job_place.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>

#include "paceline/agent/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/cli/text.h"

namespace paceline::cli {
namespace {

using PlainJson = nlohmann::json;

constexpr size_t kSmallFileBytesMax = 1 << 20;
constexpr size_t kEnvironmentBytesMax = 4 << 20;
constexpr std::string_view kJobVariable = "PACELINE_JOB_ID=";
constexpr size_t kEntriesMax = 100'000;

constexpr Flag kJobFlags[] = {
    {.dest = "job",
     .spellings = {"--job", "--run-dir"},
     .metavar = "ID|DIR",
     .help = "which job: its id or run directory; the running one by default"},
};

PlainJson ReadJson(const std::string& path) {
  return ParseJson(ReadText(path, kSmallFileBytesMax));
}

std::string TextAt(const PlainJson& json, const char* key) {
  if (!json.is_object()) return "";
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

double NumberAt(const PlainJson& json, const char* key) {
  if (!json.is_object()) return 0;
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : 0;
}

int PidAt(const PlainJson& json, const char* key) {
  const double pid = NumberAt(json, key);
  return pid >= 1 && pid <= INT_MAX ? static_cast<int>(pid) : 0;
}

std::string Absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

Problem NoSuchJob(const std::string& asked, const std::string& why) {
  return Problem{.code = "PL-E024",
                 .what = "there is no job " + asked,
                 .where = "--job " + ShellWord(asked),
                 .why = why,
                 .fix = "paceline ps"};
}

}  // namespace

std::vector<std::string> EntriesOf(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.' && names.size() < kEntriesMax) names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

int StarterPid(const std::string& starter_dir) {
  return PidAt(ReadJson(starter_dir + "/info.json"), "pid");
}

std::string RunDirOfRegistryEntry(const std::string& path) {
  return TextAt(ReadJson(path), "run_dir");
}

bool JobPlace::has_master() const {
  if (!IsPacelineProcess(master_pid)) return false;
  const std::string path = "/proc/" + std::to_string(master_pid) + "/environ";
  const std::string environment = ReadText(path, kEnvironmentBytesMax);
  for (const std::string& word : Split(environment, '\0')) {
    if (word.starts_with(kJobVariable)) return word.substr(kJobVariable.size()) == id;
  }
  return true;
}

bool JobPlace::has_launcher() const {
  if (!IsPacelineProcess(launcher_pid)) return false;
  return launcher_start == 0 || agent::StartTimeOf(launcher_pid) == launcher_start;
}

FlagTable JobFlags() { return kJobFlags; }

bool IsPacelineProcess(int pid) {
  if (pid <= 0) return false;
  const std::string root = "/proc/" + std::to_string(pid);
  // A zombie has an empty command line.
  return ReadText(root + "/cmdline", 64 * 1024).find("paceline") != std::string::npos;
}

std::string RuntimeDirectory(const Environment& environment) {
  const std::string named = LookupOr(environment, "PACELINE_RUNTIME_DIR", "");
  if (!named.empty()) return named;
  const std::string xdg = LookupOr(environment, "XDG_RUNTIME_DIR", "");
  if (!xdg.empty()) return xdg + "/paceline";
  return "/tmp/paceline-" + std::to_string(getuid());
}

Check CheckRuntimeDirectory(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return std::nullopt;
  std::string why;
  if (!S_ISDIR(status.st_mode)) {
    why = S_ISLNK(status.st_mode) ? "it is a symbolic link" : "it is not a directory";
  } else if (status.st_uid != getuid()) {
    why = "it belongs to user " + std::to_string(status.st_uid) + ", not to you";
  } else if ((status.st_mode & 077) != 0) {
    why = "others can look into it";
  }
  if (why.empty()) return std::nullopt;
  return Problem{.code = "PL-E041",
                 .what = "the runtime directory " + path + " is not safe",
                 .where = path,
                 .why = why,
                 .fix = why.starts_with("others")
                            ? "chmod 700 " + ShellWord(path)
                            : "PACELINE_RUNTIME_DIR=$HOME/.paceline-run, or remove it"};
}

Result<JobPlace> ReadJobPlace(const std::string& run_dir) {
  const std::string path = run_dir + "/job.json";
  if (access(path.c_str(), F_OK) != 0) {
    return NoSuchJob(run_dir, "the directory has no job.json");
  }
  const PlainJson json = ReadJson(path);
  if (TextAt(json, "schema") != "paceline.job/1" || TextAt(json, "id").empty()) {
    return Problem{.code = "PL-E025",
                   .what = path + " is damaged",
                   .where = path,
                   .why = "it is not a \"paceline.job/1\" object",
                   .fix = "paceline events --job " + ShellWord(run_dir)};
  }
  JobPlace place{.id = TextAt(json, "id"),
                 .name = TextAt(json, "name"),
                 .run_dir = Absolute(run_dir),
                 .cwd = TextAt(json, "cwd"),
                 .launcher_pid = PidAt(json, "launcher_pid"),
                 .created = NumberAt(json, "created")};
  if (const auto launcher = json.find("launcher"); launcher != json.end()) {
    place.launcher_start = static_cast<uint64_t>(std::max(0.0, NumberAt(*launcher, "start_time")));
  }
  if (const auto argv = json.find("argv"); argv != json.end() && argv->is_array()) {
    for (const PlainJson& word : *argv) {
      if (word.is_string()) place.argv.push_back(word.get<std::string>());
    }
  }
  if (const auto master = json.find("master"); master != json.end()) {
    place.master_addr = TextAt(*master, "addr");
    place.http_addr = TextAt(*master, "http");
    place.master_pid = PidAt(*master, "pid");
  }
  return place;
}

std::vector<JobPlace> KnownJobs(const Environment& environment) {
  std::vector<JobPlace> jobs;
  const std::string root = RuntimeDirectory(environment);
  if (CheckRuntimeDirectory(root).has_value()) return jobs;
  for (const std::string& name : EntriesOf(root + "/jobs")) {
    if (!name.ends_with(".json")) continue;
    const std::string run_dir = TextAt(ReadJson(root + "/jobs/" + name), "run_dir");
    if (run_dir.empty()) continue;
    auto place = ReadJobPlace(run_dir);
    if (place.ok()) jobs.push_back(*std::move(place));
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const JobPlace& a, const JobPlace& b) { return a.created > b.created; });
  return jobs;
}

std::vector<StarterPlace> KnownStarters(const Environment& environment) {
  std::vector<StarterPlace> starters;
  const std::string root = RuntimeDirectory(environment);
  if (CheckRuntimeDirectory(root).has_value()) return starters;
  for (const std::string& key : EntriesOf(root + "/starters")) {
    const PlainJson json = ReadJson(root + "/starters/" + key + "/info.json");
    const StarterPlace place{
        .pid = PidAt(json, "pid"), .key = key, .keep_warm_seconds = NumberAt(json, "keep_warm")};
    if (IsPacelineProcess(place.pid)) starters.push_back(place);
  }
  return starters;
}

Result<JobPlace> FindJob(const Environment& environment, const std::string& asked) {
  const std::vector<JobPlace> jobs = KnownJobs(environment);
  if (!asked.empty()) {
    for (const JobPlace& job : jobs) {
      if (job.id == asked) return job;
    }
    struct stat status {};
    if (stat(asked.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return ReadJobPlace(asked);
    return NoSuchJob(asked, "it is neither a known id nor a run directory");
  }
  std::vector<const JobPlace*> running;
  for (const JobPlace& job : jobs) {
    if (job.is_running()) running.push_back(&job);
  }
  if (running.size() == 1) return *running.front();
  if (running.size() > 1) {
    std::string ids;
    for (const JobPlace* job : running) ids += (ids.empty() ? "" : ", ") + job->id;
    return Problem{.code = "PL-E023",
                   .what = std::to_string(running.size()) + " jobs run; say which one",
                   .where = RuntimeDirectory(environment),
                   .why = Clip(ids, 200),
                   .fix = "--job " + running.front()->id};
  }
  if (!jobs.empty()) return jobs.front();
  return Problem{.code = "PL-E022",
                 .what = "there is no job to talk about",
                 .where = RuntimeDirectory(environment),
                 .why = "no job of this user is known on this host",
                 .fix = "paceline run train.py, or --job RUN_DIR"};
}

}  // namespace paceline::cli
