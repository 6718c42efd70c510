#pragma once

// The run directory of a job on this host: made, locked, described and found again.
// docs/formats/run_dir.md describes its files.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/fd.h"
#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

// job.json.
struct JobCard {
  std::string job_id;
  std::string name;
  std::vector<std::string> argv;
  std::string cwd;
  std::string master_address;  // host:port
  bool has_master = true;      // it runs on this host
  agent::ProcessId master;     // 0 when it does not run here
  agent::ProcessId launcher;
  std::string pid_space;           // of the launcher: agent::PidSpaceName; "": not known
  bool insecure = false;           // --insecure: the master listens for all without encryption
  uint16_t http_port = 0;          // of the master's /metrics, as the user set it; 0: any
  std::vector<std::string> nodes;  // agents of this host
  std::string relay;   // host:port where the first of them serves as a relay; "": it does not
  double created = 0;  // seconds since 1970
  double started = 0;  // the same of the newest `paceline run`, which may have resumed the job
  // On a host that joined: how the master said that the job has ended.
  std::optional<JobEnd> end;
};

std::string FormatJobCard(const JobCard& card);
Result<JobCard> ReadJobCard(const std::string& run_dir);
// The run directory that an entry of the registry names; empty for any other text.
std::string RunDirOfEntry(const std::string& text);

// Returns the id of that run directory's job if the same command started it in another PID space:
// before a reboot, or in a former container. No process of the job can live then. Schedulers start
// a job again by the command that they started it with. Otherwise returns "".
std::string JobLeftBehind(const std::string& run_dir, const std::string& cwd,
                          const std::vector<std::string>& argv);

struct RunDir {
  std::string path;           // absolute
  Fd lock;                    // held by the launcher as long as it lives
  bool is_temporary = false;  // no other place could be written; a reboot removes it
};

struct RunDirRequest {
  std::string wanted;  // "": ./runs/<job-id>
  std::string job_id;
  std::string cwd;
  bool is_cwd_writable = true;
  bool resume = false;
};

// The run directory that a user means by a path, or by the whole id or name of a job. A path is
// returned as it is, even if nothing is there. PL-E023 or PL-E024 if no one job has that name.
Result<std::string> RunDirOf(const std::string& asked, const Environment& environment);

// The folder of the history (docs/formats/history.md): `wanted`, which may begin with "~/", or the
// user's state directory. "": nothing is kept, by "off", or because the user has no such directory.
std::string HistoryPlace(const std::string& wanted, const Environment& environment,
                         const std::string& cwd);

// Without `wanted` the directory is in ./runs, else in the user's state directory, else in a
// private one below $TMPDIR or /tmp. Makes the directory (0700) or, to resume, opens it, and takes
// its lock. Fails if another launcher has the lock, if the directory has a job and `resume` is not
// set, or if it has none and `resume` is set.
Result<RunDir> OpenRunDir(const RunDirRequest& request, const Environment& environment);

// Makes the folder that --log-dir names; "": none. PL-E021, before anything of the job exists.
Check MakeLogDir(const std::string& path);

// $PACELINE_RUNTIME_DIR | $XDG_RUNTIME_DIR/paceline | /tmp/paceline-<uid>, made with mode 0700 and
// refused if it belongs to another user or is open to others.
Result<std::string> OpenRuntimeDir(const Environment& environment);

// Writes job.json and this host's registry entry jobs/<job-id>.json.
Check SaveJobCard(const JobCard& card, const std::string& run_dir, const std::string& runtime_dir);

// The living agent of that node, from its agent.json; pid 0 if there is none.
agent::ProcessId FindAgent(const std::string& run_dir, const std::string& node);

// True if an agent of the card's nodes lives on this host.
bool HasAgent(const JobCard& card, const std::string& run_dir);

}  // namespace paceline::cli
