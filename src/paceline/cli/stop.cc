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

constexpr Duration kPatience = Duration::Seconds(10);  // a master may be starting

std::string Plan(const JobPlace& place, Duration grace, bool force) {
  if (force) return "stopping " + place.id + ": SIGKILL to its ranks now";
  return "stopping " + place.id + ": SIGTERM to its ranks, SIGKILL after " + ToString(grace);
}

}  // namespace

FlagTable StopFlags() { return kFlags; }

int RunStop(Invocation& invocation) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const Duration grace = invocation.settings.Time("timers.stop_grace");
  const bool force = invocation.line.Has("force");
  if (!place->is_running()) {
    const auto status = StatusOf(*place, kPatience);
    if (status.ok() && status->phase == "finished") {
      out.Say(place->id + " has ended already: " + Visible(status->final_reason));
      return kExitDone;
    }
    return out.Fail({.code = "PL-E030",
                     .what = "nobody runs " + place->id + " on this host",
                     .where = place->run_dir,
                     .why = "neither its master nor its launcher lives",
                     .fix = "paceline run --resume --run-dir " + ShellWord(place->run_dir) +
                            " …   goes on with it"});
  }
  if (invocation.line.Has("dry_run")) {
    out.DataLine("would be " + Plan(*place, grace, force));
    return kExitDone;
  }
  auto options = ControlOptions(*place, kPatience);
  if (!options.ok()) return out.Fail(options.problem());
  wire::ControlClient client(*options);
  const absl::Status status = client.Stop({.why = "paceline stop was typed",
                                           .grace = force ? Duration() : grace,
                                           .exit_code = kExitTerminated,
                                           .force = force});
  if (!status.ok()) return out.Fail(ProblemFrom(status));
  out.Say(Plan(*place, grace, force));
  out.Say("next: paceline wait --job " + ShellWord(place->id));
  return kExitDone;
}

}  // namespace paceline::cli
