// `paceline clean`: removes what dead jobs and starters left behind. A run directory is removed
// only if it is named or old enough, and only the files that paceline made: the script's
// checkpoints may be in it too.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/job/ray_dir.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr size_t kProcTextBytesMax = 4 << 20;
// A starter makes its folder before it runs, at most this long.
constexpr Duration kStarterBirth = Duration::Seconds(60);
// --older-than with less asks first. It may be a slip, and takes nearly every job that has ended.
constexpr Duration kAskedBelow = Duration::Seconds(3600);
// Images in memory of an unknown job are kept for this time, because it may be resumed.
constexpr Duration kMemoryRest = Duration::Seconds(600);

// Everything that paceline writes into a run directory; docs/formats/run_dir.md.
constexpr const char* kRunDirEntries[] = {
    "data.db",       "data.db-shm", "data.db-wal",    "errors",         "job.json",
    "job.json.room", "journal.db",  "journal.db-shm", "journal.db-wal", "journal.db.lock",
    "lock",          "logs",        "nodes",          "open.html",      "reading_token",
    "spec.json",     "tls",         "token"};

constexpr Flag kCleanFlags[] = {
    {.dest = "older_than",
     .spellings = {"--older-than"},
     .kind = FlagKind::kDuration,
     .metavar = "TIME",
     .help = "also the run directories of jobs that ended so long ago, such as 168h"},
    {.dest = "yes",
     .spellings = {"--yes"},
     .kind = FlagKind::kSwitch,
     .help = "do not ask; --older-than of less than an hour asks otherwise"},
    {.dest = "dry_run",
     .spellings = {"--dry-run"},
     .kind = FlagKind::kSwitch,
     .help = "only say what would be removed"},
};

struct Item {
  std::string kind;  // "registry entry", "starter", "run directory"
  std::string path;
  std::string why;
};

struct CleanPlan {
  std::vector<Item> removed;
  std::vector<Item> kept;
};

bool IsLocked(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file.is_open() && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// A living process of this user that belongs to the job. Agents and ranks may outlive the launcher.
bool HasProcess(const std::string& job_id) {
  const std::string wanted = "PACELINE_JOB_ID=" + job_id;
  for (const std::string& pid : EntriesOf("/proc")) {
    if (!ParseInteger(pid).has_value()) continue;
    const std::string text = ReadText("/proc/" + pid + "/environ", kProcTextBytesMax);
    for (const std::string& word : Split(text, '\0')) {
      if (word == wanted) return true;
    }
    // The keeper of ranks that `paceline run` did not start.
    const std::string command = ReadText("/proc/" + pid + "/cmdline", kProcTextBytesMax);
    const std::vector<std::string> words = Split(command, '\0');
    const bool is_keeper = std::find(words.begin(), words.end(), "keeper") != words.end();
    if (is_keeper && std::find(words.begin(), words.end(), job_id) != words.end()) return true;
  }
  return false;
}

// "" if no process of the job lives here.
std::string WhyAlive(const JobPlace& job) {
  if (job.is_running()) return "the job runs";
  if (IsLocked(job.run_dir + "/lock")) return "a launcher holds it";
  if (HasProcess(job.id)) return "a process of the job still lives";
  return "";
}

void PlanStarters(const std::string& root, CleanPlan* plan) {
  for (const std::string& key : EntriesOf(root + "/starters")) {
    const std::string path = root + "/starters/" + key;
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    const Instant changed =
        Instant::FromNanoseconds(int64_t{status.st_mtim.tv_sec} * 1'000'000'000);
    const bool is_fresh = WallNow() - changed < kStarterBirth;
    if (is_fresh || IsPacelineProcess(StarterPid(path)) || IsLocked(path + "/sock.lock")) continue;
    plan->removed.push_back({"starter", path, "its process is gone"});
  }
}

void PlanRegistry(const Environment& environment, const std::string& root, CleanPlan* plan) {
  const std::vector<JobPlace> known = KnownJobs(environment);
  for (const std::string& name : EntriesOf(root + "/jobs")) {
    const std::string path = root + "/jobs/" + name;
    const std::string run_dir = RunDirOfRegistryEntry(path);
    if (run_dir.empty()) {
      plan->removed.push_back({"registry entry", path, "it names no run directory"});
    } else if (std::any_of(known.begin(), known.end(), [&](const JobPlace& job) {
                 return job.run_dir == run_dir || (name.starts_with(job.id) && job.is_running());
               })) {
      continue;  // kept also for a job that runs although its directory was removed or moved
    } else if (access((run_dir + "/job.json").c_str(), F_OK) != 0) {
      plan->removed.push_back({"registry entry", path, run_dir + " is gone"});
    }
  }
}

// Images in memory. A job leaves them if its agents and its launcher were killed together. The
// images of a known job are removed with its run directory, because --resume may need them. Images
// that did not fit into memory are on a disk.
std::vector<std::string> ArenaHomes() {
  const agent::ArenaHomes homes = agent::ArenaHomesOfUser();
  return {homes.memory, homes.disk};
}

Duration UnchangedFor(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return Duration();
  return WallNow() - Instant::FromNanoseconds(int64_t{status.st_mtim.tv_sec} * 1'000'000'000);
}

void PlanMemory(const Environment& environment, CleanPlan* plan) {
  std::vector<std::string> known;
  for (const JobPlace& job : KnownJobs(environment)) known.push_back(job.id);
  for (const std::string& home : ArenaHomes()) {
    for (const std::string& job_id : EntriesOf(home)) {
      const std::string path = home + "/" + job_id;
      const bool is_known = std::find(known.begin(), known.end(), job_id) != known.end();
      if (is_known || UnchangedFor(path) < kMemoryRest || HasProcess(job_id)) continue;
      plan->removed.push_back({"checkpoints in memory", path, "no process of its job lives"});
    }
  }
}

// Shards on the local disk, from keepers of ranks that `paceline run` did not start.
void PlanTiers(const Environment& environment, Duration age, CleanPlan* plan) {
  const std::string home = LookupOr(environment, "HOME", "");
  const std::string root =
      LookupOr(environment, "XDG_STATE_HOME", home + "/.local/state") + "/paceline/tiers";
  for (const std::string& job_id : EntriesOf(root)) {
    const std::string path = root + "/" + job_id;
    if (UnchangedFor(path) < age || HasProcess(job_id)) continue;
    plan->removed.push_back(
        {"checkpoints on the local disk", path, "unchanged for " + ToString(UnchangedFor(path))});
  }
}

// What actors of jobs on Ray left. An adapter's directory has only credentials, so it goes with its
// actor. The others have journals and logs.
void PlanRayDirs(const Environment& environment, std::optional<Duration> age, CleanPlan* plan) {
  for (const RayDir& dir : RayDirs(environment)) {
    if (dir.is_alive) continue;
    if (dir.is_adapter()) {
      plan->removed.push_back({"credentials of a Ray job", dir.path, "its adapter has ended"});
      continue;
    }
    const auto job = ReadOwnJobPlace(dir.run_dir());
    const std::string journal = dir.run_dir() + "/journal.db";
    const bool has_journal = access(journal.c_str(), F_OK) == 0;
    const Duration unchanged_for = UnchangedFor(has_journal ? journal : dir.path);
    if (!age.has_value() || unchanged_for < *age || (job.ok() && !WhyAlive(*job).empty())) continue;
    plan->removed.push_back(
        {"directory of a Ray job", dir.path,
         Concat(dir.part, " of ", dir.job, ", unchanged for ", ToString(unchanged_for))});
  }
}

void PlanRunDir(const JobPlace& job, const std::string& why, const std::string& root,
                CleanPlan* plan) {
  const std::string alive = WhyAlive(job);
  if (!alive.empty()) {
    plan->kept.push_back({"run directory", job.run_dir, alive});
    return;
  }
  plan->removed.push_back({"run directory", job.run_dir, why});
  // A copy of a run directory has the id of the job that the images may still be of.
  const std::string entry = root + "/jobs/" + job.id + ".json";
  const std::string known_dir = RunDirOfRegistryEntry(entry);
  if (!known_dir.empty() && known_dir != job.run_dir && access(known_dir.c_str(), F_OK) == 0) {
    return;
  }
  for (const std::string& home : ArenaHomes()) {
    const std::string path = home + "/" + job.id;
    if (access(path.c_str(), F_OK) != 0) continue;
    plan->removed.push_back({"checkpoints in memory", path, "its run directory goes"});
  }
  if (known_dir == job.run_dir) {
    plan->removed.push_back({"registry entry", entry, "its run directory goes"});
  }
}

void PlanOldRunDirs(const Environment& environment, Duration age, const std::string& root,
                    CleanPlan* plan) {
  for (const JobPlace& job : KnownJobs(environment)) {
    struct stat status {};
    const std::string journal = job.run_dir + "/journal.db";
    const std::string card = job.run_dir + "/job.json";
    if (stat(journal.c_str(), &status) != 0 && stat(card.c_str(), &status) != 0) continue;
    const Instant changed =
        Instant::FromNanoseconds(int64_t{status.st_mtim.tv_sec} * 1'000'000'000);
    const Duration unchanged_for = WallNow() - changed;
    if (unchanged_for < age) continue;
    PlanRunDir(job, "unchanged for " + ToString(unchanged_for), root, plan);
  }
}

// Why the path could not be removed; "" if it is gone.
std::string Remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);  // follows no links
  return error ? error.message() : "";
}

std::string RemoveRunDir(const std::string& path) {
  for (const char* name : kRunDirEntries) {
    const std::string why = Remove(path + "/" + name);
    if (!why.empty()) return why;
  }
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return "";
  return errno == ENOTEMPTY ? "files that are not paceline's stay in it" : std::strerror(errno);
}

void Carry(CleanPlan* plan) {
  std::vector<Item> removed;
  for (Item& item : plan->removed) {
    const std::string why =
        item.kind == "run directory" ? RemoveRunDir(item.path) : Remove(item.path);
    if (why.empty()) {
      removed.push_back(std::move(item));
    } else {
      plan->kept.push_back({item.kind, item.path, why});
    }
  }
  plan->removed = std::move(removed);
}

void Report(Output& out, const CleanPlan& plan, bool is_dry) {
  if (out.is_json()) {
    const auto list = [](const std::vector<Item>& items) {
      auto json = nlohmann::ordered_json::array();
      for (const Item& item : items) {
        json.push_back({{"kind", item.kind}, {"path", item.path}, {"why", item.why}});
      }
      return json;
    };
    const nlohmann::ordered_json json = {{"schema", "paceline.clean/1"},
                                         {"dry_run", is_dry},
                                         {"removed", list(plan.removed)},
                                         {"kept", list(plan.kept)}};
    out.DataLine(PrintJson(json));
    return;
  }
  for (const Item& item : plan.removed) {
    out.DataLine(std::string(is_dry ? "would remove " : "removed ") + item.kind + " " +
                 Visible(item.path) + ": " + Visible(item.why));
  }
  for (const Item& item : plan.kept) {
    out.DataLine("kept " + item.kind + " " + Visible(item.path) + ": " + Visible(item.why));
  }
  if (plan.removed.empty() && plan.kept.empty()) out.Say("nothing to clean");
}

bool IsLasting(const Item& item) {
  return item.kind == "run directory" || item.kind == "checkpoints on the local disk" ||
         item.kind == "directory of a Ray job";
}

// Whether the user agrees to remove run directories, after a list of them.
Check AskToRemove(Output& out, const CleanPlan& plan, const std::string& age) {
  const auto count =
      static_cast<size_t>(std::count_if(plan.removed.begin(), plan.removed.end(), &IsLasting));
  if (count == 0) return std::nullopt;
  for (const Item& item : plan.removed) {
    if (!IsLasting(item)) continue;
    out.Say(Concat("would remove ", item.kind, " ", Visible(item.path), ": ", Visible(item.why)));
  }
  const std::string asked = Concat("--older-than ", Visible(age));
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  if (can_ask) {
    std::fputs(Concat("Remove all of them? [y/N] ").c_str(), stderr);
    std::array<char, 64> answer{};
    const bool is_answered = std::fgets(answer.data(), answer.size(), stdin) != nullptr;
    if (is_answered && (answer[0] == 'y' || answer[0] == 'Y')) return std::nullopt;
  }
  return Problem{.code = "PL-E018",
                 .what = "nothing was removed",
                 .where = asked,
                 .why = Concat(asked, " takes ", Counted(count, "folder"), " of ended jobs, and ",
                               can_ask ? "the answer was no" : "no terminal is here to ask on"),
                 .fix = Concat("paceline clean ", asked, " --yes")};
}

}  // namespace

FlagTable CleanFlags() { return kCleanFlags; }

int RunClean(Invocation& invocation) {
  Output& out = invocation.out;
  const std::string root = RuntimeDirectory(invocation.environment);
  if (Check problem = CheckRuntimeDirectory(root)) return out.Fail(*problem);
  const bool is_dry = invocation.line.Has("dry_run");
  CleanPlan plan;
  for (const std::string& word : invocation.line.positionals) {
    const auto job = ReadOwnJobPlace(word);
    if (!job.ok()) return out.Fail(job.problem());
    PlanRunDir(*job, "named on the command line", root, &plan);
  }
  if (invocation.line.positionals.empty()) {
    PlanStarters(root, &plan);
    PlanRegistry(invocation.environment, root, &plan);
    PlanMemory(invocation.environment, &plan);
    if (const Given* given = invocation.line.Find("older_than")) {
      const Duration age = ParseDuration(given->value).value_or(Duration::Infinite());
      PlanOldRunDirs(invocation.environment, age, root, &plan);
      PlanTiers(invocation.environment, age, &plan);
      PlanRayDirs(invocation.environment, age, &plan);
      if (age < kAskedBelow && !is_dry && !invocation.line.Has("yes")) {
        if (Check no = AskToRemove(out, plan, given->value)) return out.Fail(*no);
      }
    } else {
      PlanRayDirs(invocation.environment, std::nullopt, &plan);
    }
  }
  if (!is_dry) Carry(&plan);
  Report(out, plan, is_dry);
  return plan.kept.empty() ? kExitDone : kExitFindings;
}

}  // namespace paceline::cli
