// `paceline stop`: SIGTERM to the ranks, SIGKILL after the grace period.

#include <signal.h>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/instant.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/moved_dir.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/silent_master.h"

namespace paceline::cli {
namespace {

constexpr Flag kStopFlags[] = {
    {.dest = "grace",
     .spellings = {"--stop-grace"},
     .kind = FlagKind::kDuration,
     .metavar = "TIME",
     .help = "between SIGTERM and SIGKILL",
     .setting = "timers.stop_grace"},
    {.dest = "force",
     .spellings = {"--force"},
     .kind = FlagKind::kSwitch,
     .help = "SIGKILL at once"},
    {.dest = "dry_run",
     .spellings = {"--dry-run"},
     .kind = FlagKind::kSwitch,
     .help = "only say what would be stopped"},
};

// Each request has a short limit, because the master may be starting or ending.
constexpr Duration kLook = Duration::Seconds(1);
constexpr Duration kPatience = Duration::Seconds(10);

std::string Plan(const JobPlace& place, Duration grace, bool force) {
  if (force) return "stopping " + place.id + ": SIGKILL to its ranks now";
  return "stopping " + place.id + ": SIGTERM to its ranks, SIGKILL after " + ToString(grace);
}

std::string StoppedText(const JobPlace& place) {
  const std::string pid = std::to_string(place.master_pid);
  return "note: the master, process " + pid +
         ", is stopped (SIGSTOP), so the job's launcher would end the job; kill -CONT " + pid +
         " lets the master do it";
}

// Sends one request. PL-E030 if no master runs now.
Check Ask(const JobPlace& place, Duration limit, Duration grace, bool force) {
  const auto options = ControlOptions(place, limit);
  if (!options.ok()) return options.problem();
  const absl::Status status = wire::ControlClient(*options).Stop({.why = "paceline stop was typed",
                                                                  .grace = grace,
                                                                  .exit_code = kExitTerminated,
                                                                  .force = force});
  if (status.ok()) return std::nullopt;
  return ProblemFrom(status);
}

// For a job whose master runs on another host: that master is not asked to stop the job for the
// other hosts.
Problem PartHasEnded(const JobPlace& place) {
  return {.code = "PL-E030",
          .what = "this host's part of " + place.id + " has ended already",
          .where = place.run_dir,
          .why = "its launcher has ended; the master is at " + place.master_addr,
          .fix = "paceline stop on the master's host, to stop the job"};
}

Problem PartHasNoLauncher(const JobPlace& place) {
  return {.code = "PL-E030",
          .what = "nobody watches over this host's part of " + place.id + " now",
          .where = place.run_dir,
          .why = "its launcher has ended; its agents and ranks go on with the master at " +
                 place.master_addr,
          .fix = "paceline stop on the master's host, to stop the job; or, to stop this part, " +
                 ResumeCommand(place.run_dir) + " takes over, then try again"};
}

int NotRunning(const JobPlace& place, Output& out) {
  const auto status = StatusOf(place, kLook);
  if (status.ok() && status->phase == "finished") {
    out.Say(place.id + " has ended already: " + Visible(status->final_reason));
    return kExitDone;
  }
  const bool has_agents = HasAgents(place);
  if (place.is_joined) return out.Fail(has_agents ? PartHasNoLauncher(place) : PartHasEnded(place));
  if (has_agents) return out.Fail(NobodyLeads(place));
  return out.Fail({.code = "PL-E030",
                   .what = "no process of " + place.id + " runs on this host",
                   .where = place.run_dir,
                   .why = "its master and its launcher have ended",
                   .fix = ResumeCommand(place.run_dir)});
}

// job.json may have been written by anybody who made the run directory, so it does not choose which
// process gets a signal: a launcher holds the lock of its run directory.
bool IsLauncherOf(const JobPlace& place) {
  if (place.is_run_dir_gone) return IsPacelineProcess(place.launcher_pid);
  return RunDirHeldBy(place.launcher_pid, place.id) == place.run_dir;
}

bool SignalLauncher(const JobPlace& place) {
  const Fd launcher =
      agent::OpenPidfd({static_cast<pid_t>(place.launcher_pid), place.launcher_start});
  return launcher.is_open() && IsLauncherOf(place) && ::kill(place.launcher_pid, SIGTERM) == 0;
}

// Without the run directory this command cannot read the master's token, but the launcher has it.
int AskLauncher(const JobPlace& place, bool force, Output& out) {
  if (!SignalLauncher(place)) return NotRunning(place, out);
  out.Say("stopping " + place.id + ": its run directory is gone, so its launcher got SIGTERM");
  if (force) out.Say("note: --force has no effect without the run directory");
  return kExitDone;
}

// The master of this host does not answer. The launcher has more time, and can go on without it.
int StopByLauncher(const JobPlace& place, bool force, Output& out) {
  if (!SignalLauncher(place)) return NotRunning(place, out);
  out.Say("stopping " + place.id + ": the master does not answer, so the launcher got SIGTERM");
  if (force) out.Say("note: --force has no effect without the master");
  return kExitDone;
}

// The master runs on another host and does not answer. This host's launcher ends its part.
int StopThisHost(const JobPlace& place, bool force, Output& out) {
  if (!SignalLauncher(place)) return NotRunning(place, out);
  out.Say("stopping this host's part of " + place.id + ": the master at " + place.master_addr +
          " does not answer, so other hosts are not told");
  if (force) out.Say("note: --force has no effect without the master");
  return kExitDone;
}

}  // namespace

FlagTable StopFlags() { return kStopFlags; }

int RunStop(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation, JobUse::kChange);
  if (!place.ok()) return out.Fail(place.problem());
  const Duration grace = invocation.settings.Time("timers.stop_grace");
  const bool force = invocation.line.Has("force");
  if (!place->is_running()) return NotRunning(*place, out);
  if (invocation.line.Has("dry_run")) {
    out.DataLine("would be " + Plan(*place, grace, force));
    if (IsMasterStopped(*place)) out.Say(StoppedText(*place));
    return kExitDone;
  }
  if (place->is_run_dir_gone) return AskLauncher(*place, force, out);
  Check problem;
  const Asked asked = AskUntil(*place, {.each = kLook, .in_all = kPatience},
                               [&](const JobPlace& now, Duration limit) {
                                 problem = Ask(now, limit, force ? Duration() : grace, force);
                                 return !problem || problem->code != "PL-E030";
                               });
  if (problem && problem->code == "PL-E030" && place->is_joined && place->has_launcher()) {
    return StopThisHost(*place, force, out);
  }
  if (problem && problem->code == "PL-E030" && place->has_launcher()) {
    return StopByLauncher(*place, force, out);
  }
  if (problem && asked == Asked::kNobodyRunsIt) return NotRunning(*place, out);
  if (problem) return out.Fail(*problem);
  out.Say(Plan(*place, grace, force));
  out.Say("next: paceline wait " + NamedByFlag(*place));
  return kExitDone;
}

}  // namespace paceline::cli
