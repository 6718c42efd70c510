#include "paceline/cli/job/job_place.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/moved_dir.h"
#include "paceline/model/job_file_limit.h"
#include "paceline/wire/codec/judge.h"

namespace paceline::cli {
namespace {

using PlainJson = nlohmann::json;

constexpr size_t kEnvironmentBytesMax = 4 << 20;
constexpr std::string_view kJobVariable = "PACELINE_JOB_ID=";
constexpr size_t kEntriesMax = 100'000;

constexpr Flag kJobFlags[] = {
    {.dest = "job",
     .spellings = {"--job", "--run-dir"},
     .metavar = "ID|DIR",
     .help = "which job: its id, name or run directory; to show it, also the begin of an id; by "
             "default the newest of this directory"},
    {.dest = "on",
     .spellings = {"--on"},
     .metavar = "PLACE",
     .help = "a job of a cluster: kubernetes/NAMESPACE/JOB, or ray/JOB"},
};

PlainJson ReadJson(const std::string& path) { return ParseJson(ReadText(path, kJobFileBytesMax)); }

int PidAt(const PlainJson& json, const char* key) {
  const double pid = JsonNumber(json, key);
  return pid >= 1 && pid <= INT_MAX ? static_cast<int>(pid) : 0;
}

std::string Absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

std::optional<uid_t> OtherOwner(const std::string& path) {
  struct stat status {};
  const bool is_other = lstat(path.c_str(), &status) == 0 && status.st_uid != getuid();
  return is_other ? std::optional(status.st_uid) : std::nullopt;
}

Problem NotYours(const std::string& run_dir, std::optional<uid_t> owner, std::string_view what) {
  return Problem{.code = "PL-E024",
                 .what = Concat("the job in ", run_dir, " cannot be ", what),
                 .where = "--job " + ShellWord(run_dir),
                 .why = owner ? "it belongs to user " + std::to_string(*owner)
                              : "its files are not readable by you",
                 .fix = "run the command as the user who started the job"};
}

}  // namespace

Problem NoSuchJob(const std::string& asked, const std::string& why) {
  return Problem{.code = "PL-E024",
                 .what = "there is no job " + asked,
                 .where = "--job " + ShellWord(asked),
                 .why = why,
                 .fix = "paceline ps"};
}

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
  return JsonText(ReadJson(path), "run_dir");
}

bool JobPlace::has_master() const {
  if (master_start != 0) return agent::IsAlive({master_pid, master_start});
  if (!IsPacelineProcess(master_pid)) return false;
  const std::string path = "/proc/" + std::to_string(master_pid) + "/environ";
  const std::string environment = ReadText(path, kEnvironmentBytesMax);
  for (const std::string& word : Split(environment, '\0')) {
    if (word.starts_with(kJobVariable)) return word.substr(kJobVariable.size()) == id;
  }
  return false;
}

bool JobPlace::has_launcher() const {
  if (launcher_start != 0) return agent::IsAlive({launcher_pid, launcher_start});
  return IsPacelineProcess(launcher_pid);
}

std::string NamedByFlag(const JobPlace& place) {
  return place.on.empty() ? "--job " + ShellWord(place.id) : "--on " + ShellWord(place.on);
}

FlagTable JobFlags() { return kJobFlags; }

bool IsPacelineProcess(int pid) {
  if (pid <= 0) return false;
  // A zombie has an empty command line.
  const std::string line = ReadText("/proc/" + std::to_string(pid) + "/cmdline", 64 * 1024);
  const std::vector<std::string> words = Split(line, '\0');
  if (words.empty()) return false;
  if (words[0].substr(words[0].rfind('/') + 1) == "paceline") return true;
  // The command line of a starter is python -P -s -m paceline._starter. Arguments of a script come
  // later.
  constexpr size_t kWordsMax = 6;
  for (size_t i = 1; i < std::min(words.size(), kWordsMax); ++i) {
    if (words[i - 1] == "-m" && words[i].starts_with("paceline.")) return true;
  }
  return false;
}

std::string RuntimeDirectory(const Environment& environment) {
  const std::string named = LookupOr(environment, "PACELINE_RUNTIME_DIR", "");
  if (!named.empty()) return named;
  const std::string xdg = LookupOr(environment, "XDG_RUNTIME_DIR", "");
  if (!xdg.empty()) return xdg + "/paceline";
  return "/tmp/paceline-" + std::to_string(getuid());
}

std::vector<std::string> RuntimeDirectories(const Environment& environment) {
  std::vector<std::string> roots = {RuntimeDirectory(environment)};
  if (!LookupOr(environment, "PACELINE_RUNTIME_DIR", "").empty()) return roots;
  const std::string user = std::to_string(getuid());
  for (const std::string& root : {"/run/user/" + user + "/paceline", "/tmp/paceline-" + user}) {
    if (root != roots.front()) roots.push_back(root);
  }
  return roots;
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
                            : "export PACELINE_RUNTIME_DIR=$HOME/.paceline-run"};
}

std::optional<JobEnd> JobEndIn(const nlohmann::json& job) {
  const auto end = job.find("end");
  if (end == job.end() || !end->is_object()) return std::nullopt;
  return JobEnd{JsonInt<int>(*end, "exit_code"), JsonText(*end, "reason")};
}

namespace {

// From job.json, or from the registry's copy of it.
JobPlace PlaceFrom(const PlainJson& json, const std::string& run_dir) {
  JobPlace place{.id = JsonText(json, "id"),
                 .name = JsonText(json, "name"),
                 .run_dir = Absolute(run_dir),
                 .cwd = JsonText(json, "cwd"),
                 .launcher_pid = PidAt(json, "launcher_pid"),
                 .created = JsonNumber(json, "created")};
  place.started = JsonNumber(json, "started", place.created);
  const auto start_of = [](const PlainJson& process) {
    return static_cast<uint64_t>(std::max(0.0, JsonNumber(process, "start_time")));
  };
  if (const auto launcher = json.find("launcher"); launcher != json.end()) {
    place.launcher_start = start_of(*launcher);
  }
  if (const auto argv = json.find("argv"); argv != json.end() && argv->is_array()) {
    for (const PlainJson& word : *argv) {
      if (word.is_string()) place.argv.push_back(word.get<std::string>());
    }
  }
  if (const auto master = json.find("master"); master != json.end()) {
    place.master_addr = JsonText(*master, "addr");
    place.is_joined = !JsonBool(json, "has_master", true);
    place.master_pid = PidAt(*master, "pid");
    place.master_start = start_of(*master);
  }
  place.end = JobEndIn(json);
  return place;
}

// The id becomes a part of paths, so no text that is not a name is taken for one.
bool IsJobJson(const PlainJson& json) {
  return JsonText(json, "schema") == "paceline.job/1" && wire::IsName(JsonText(json, "id"));
}

}  // namespace

Result<JobPlace> ReadJobPlace(const std::string& run_dir) {
  const std::string path = run_dir + "/job.json";
  if (access(path.c_str(), F_OK) != 0) {
    if (errno == EACCES) return NotYours(run_dir, OtherOwner(run_dir), "looked at");
    return NoSuchJob(run_dir, "the directory has no job.json");
  }
  const PlainJson json = ReadJson(path);
  if (IsJobJson(json)) return PlaceFrom(json, run_dir);
  if (access(path.c_str(), R_OK) != 0) return NotYours(run_dir, OtherOwner(run_dir), "looked at");
  return Problem{.code = "PL-E025",
                 .what = path + " is damaged",
                 .where = path,
                 .why = "it is not a \"paceline.job/1\" object with the id of a job",
                 .fix = "paceline events --job " + ShellWord(run_dir)};
}

Result<JobPlace> ReadOwnJobPlace(const std::string& run_dir) {
  auto place = ReadJobPlace(run_dir);
  if (!place.ok()) return place;
  for (const std::string& path : {place->run_dir, place->run_dir + "/job.json"}) {
    const auto owner = OtherOwner(path);
    if (owner) return NotYours(run_dir, owner, "changed");
  }
  return place;
}

std::vector<JobPlace> KnownJobs(const Environment& environment) {
  std::vector<JobPlace> jobs;
  for (const std::string& root : RuntimeDirectories(environment)) {
    if (CheckRuntimeDirectory(root).has_value()) continue;
    for (const std::string& name : EntriesOf(root + "/jobs")) {
      if (!name.ends_with(".json")) continue;
      const PlainJson entry = ReadJson(root + "/jobs/" + name);
      const std::string run_dir = JsonText(entry, "run_dir");
      const bool is_known = std::any_of(jobs.begin(), jobs.end(), [&](const JobPlace& job) {
        return job.run_dir == Absolute(run_dir);
      });
      if (run_dir.empty() || is_known) continue;
      auto place = ReadJobPlace(run_dir);
      if (place.ok()) {
        jobs.push_back(*std::move(place));
      } else if (IsJobJson(entry) && access((run_dir + "/job.json").c_str(), F_OK) != 0) {
        JobPlace known = PlaceFrom(entry, run_dir);
        known.is_run_dir_gone = true;
        if (!known.has_launcher()) continue;
        place = ReadJobPlace(RunDirHeldBy(known.launcher_pid, known.id));
        jobs.push_back(place.ok() ? *std::move(place) : std::move(known));
      }
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const JobPlace& a, const JobPlace& b) { return a.started > b.started; });
  return jobs;
}

std::vector<StarterPlace> KnownStarters(const Environment& environment) {
  std::vector<StarterPlace> starters;
  for (const std::string& root : RuntimeDirectories(environment)) {
    if (CheckRuntimeDirectory(root).has_value()) continue;
    for (const std::string& key : EntriesOf(root + "/starters")) {
      const PlainJson json = ReadJson(root + "/starters/" + key + "/info.json");
      const StarterPlace place{.pid = PidAt(json, "pid"),
                               .key = key,
                               .keep_warm_seconds = JsonNumber(json, "keep_warm")};
      if (IsPacelineProcess(place.pid)) starters.push_back(place);
    }
  }
  return starters;
}

}  // namespace paceline::cli
