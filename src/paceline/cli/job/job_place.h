#pragma once

// The jobs of this host: the runtime directory of this user has an entry for each of them, and each
// run directory has job.json. Files may be outdated, so whatever they say is checked.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/flags/flag.h"
#include "paceline/wire/codec/history_codec.h"

namespace paceline::cli {

// How a job ended.
struct JobEnd {
  int exit_code = 0;
  std::string reason;
};

struct JobPlace {
  std::string id;
  std::string name;
  std::string run_dir;  // absolute
  std::string cwd;
  std::vector<std::string> argv;
  std::string master_addr;
  int master_pid = 0;
  uint64_t master_start = 0;  // its start time in ticks since boot; 0 = not told
  int launcher_pid = 0;
  uint64_t launcher_start = 0;   // the same
  bool is_joined = false;        // the master runs on another host
  bool is_run_dir_gone = false;  // removed while the job's launcher lives; see KnownJobs
  double created = 0;            // seconds since 1970; 0 = not told
  double started = 0;            // the same of its newest start; `created` if it was not resumed
  std::optional<JobEnd> end;     // as a master on another host reported it
  std::string on;                // the value of --on, for a job of a cluster; "": of this host
  // What the cluster keeps of a job that has ended. Then there is nothing else to read.
  std::shared_ptr<const wire::KeptHistory> kept;

  // The kernel reuses pids, so the start time is compared as well.
  bool has_master() const;  // on this host
  bool has_launcher() const;
  bool is_running() const { return has_master() || has_launcher(); }
};

// A starter that is kept for the next run.
struct StarterPlace {
  int pid = 0;
  std::string key;
  double keep_warm_seconds = 0;
};

// PACELINE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/paceline, else /tmp/paceline-<uid>.
std::string RuntimeDirectory(const Environment& environment);

// The same, and the directories of this user's other sessions, because cron, sudo, ssh and `docker
// exec` set other variables than a login. If PACELINE_RUNTIME_DIR is set, only that directory.
std::vector<std::string> RuntimeDirectories(const Environment& environment);

// PL-E041 when it exists and is not a directory of this user with mode 0700.
Check CheckRuntimeDirectory(const std::string& path);

// PL-E025 for damaged files, PL-E024 when there is no job.json.
Result<JobPlace> ReadJobPlace(const std::string& run_dir);
// The same, for a command that changes the job: PL-E024 if the directory or its job.json is another
// user's. What such a file names would be stopped or removed with this user's rights.
Result<JobPlace> ReadOwnJobPlace(const std::string& run_dir);

// How the job ended, in job.json of a host that joined; none: it did not hear of the end.
std::optional<JobEnd> JobEndIn(const nlohmann::json& job);

// All jobs known to this host's runtime directories, the one that was started or resumed last
// first. If the run directory of a job was moved while its launcher lives, its place is the new
// one. Where the directory was removed, such a job is known by its registry entry.
std::vector<JobPlace> KnownJobs(const Environment& environment);
std::vector<StarterPlace> KnownStarters(const Environment& environment);

// The pid in a starter's folder, 0 when there is none; the folder that a registry entry names, ""
// for any other file.
int StarterPid(const std::string& starter_dir);
std::string RunDirOfRegistryEntry(const std::string& path);

// Names in a directory, sorted, without those that begin with a dot.
std::vector<std::string> EntriesOf(const std::string& path);

// PL-E024 for a word of --job.
Problem NoSuchJob(const std::string& asked, const std::string& why);

// The variable by which a pod's commands learn the value of --on that names their job elsewhere.
inline constexpr std::string_view kOnVariable = "PACELINE_ON";

// "--job train-1", or "--on kubernetes/default/train": how a further command names the job.
std::string NamedByFlag(const JobPlace& place);

// --job of every command that talks about a job.
FlagTable JobFlags();

// True when a process of that id exists, is not a zombie and is the program paceline or one of its
// modules. A path that contains "paceline", such as that of an edited file, is not enough.
bool IsPacelineProcess(int pid);

}  // namespace paceline::cli
