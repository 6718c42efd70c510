// `paceline stop`: SIGTERM to the ranks, SIGKILL after the grace.

#include "paceline/base/instant.h"
#include "paceline/cli/command.h"
#include "paceline/cli/exit_code.h"
#include "paceline/cli/remote.h"
#include "paceline/cli/text.h"

namespace paceline::cli {
namespace {

constexpr Flag kFlags[] = {
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

// A master may be starting, or the job may end while it is asked: each look is a short one.
constexpr Duration kLook = Duration::Seconds(1);
constexpr int kLooksMax = 10;

std::string Plan(const JobPlace& place, Duration grace, bool force) {
  if (force) return "stopping " + place.id + ": SIGKILL to its ranks now";
  return "stopping " + place.id + ": SIGTERM to its ranks, SIGKILL after " + ToString(grace);
}

int NotRunning(const JobPlace& place, Output& out) {
  const auto status = StatusOf(place, kLook);
  if (status.ok() && status->phase == "finished") {
    out.Say(place.id + " has ended already: " + Visible(status->final_reason));
    return kExitDone;
  }
  return out.Fail({.code = "PL-E030",
                   .what = "nobody runs " + place.id + " on this host",
                   .where = place.run_dir,
                   .why = "neither its master nor its launcher lives",
                   .fix = "paceline run --resume --run-dir " + ShellWord(place.run_dir) +
                          " …   goes on with it"});
}

}  // namespace

FlagTable StopFlags() { return kFlags; }

int RunStop(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const Duration grace = invocation.settings.Time("timers.stop_grace");
  const bool force = invocation.line.Has("force");
  if (!place->is_running()) return NotRunning(*place, out);
  if (invocation.line.Has("dry_run")) {
    out.DataLine("would be " + Plan(*place, grace, force));
    return kExitDone;
  }
  absl::Status status;
  for (int look = 0; look < kLooksMax; ++look) {
    auto options = ControlOptions(*place, kLook);
    if (!options.ok()) return out.Fail(options.problem());
    status = wire::ControlClient(*options).Stop({.why = "paceline stop was typed",
                                                 .grace = force ? Duration() : grace,
                                                 .exit_code = kExitTerminated,
                                                 .force = force});
    if (status.ok()) {
      out.Say(Plan(*place, grace, force));
      out.Say("next: paceline wait --job " + ShellWord(place->id));
      return kExitDone;
    }
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) break;
    place = ReadJobPlace(place->run_dir);  // a new master may have another address
    if (!place.ok()) return out.Fail(place.problem());
    if (!place->is_running()) return NotRunning(*place, out);
  }
  return out.Fail(ProblemFrom(status));
}

}  // namespace paceline::cli
