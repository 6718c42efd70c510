// `paceline wait`: returns when the job is in the requested state, or 124 after the timeout.

#include "paceline/cli/job/wait.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <string>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr Duration kAnswerPatience = Duration::Seconds(2);
// A job that was started in the background a moment ago is not in the registry yet.
constexpr Duration kBirth = Duration::Seconds(5);
constexpr int kBirthPauseMilliseconds = 50;

constexpr Flag kWaitFlags[] = {
    {.dest = "for",
     .spellings = {"--for"},
     .metavar = "STATE",
     .help = "running, finished (the default), or step=N"},
    {.dest = "timeout",
     .spellings = {"--timeout"},
     .kind = FlagKind::kDuration,
     .default_text = "never",
     .metavar = "TIME",
     .help = "give up after this time with exit code 124"},
};

// The job, which may only be about to begin: `paceline run … &` goes before.
Result<JobPlace> JobThatBegins(Invocation& invocation, Duration patience) {
  const Duration limit = std::min(patience, kBirth);
  const Instant deadline = agent::MonotonicNow() + limit;
  for (bool is_told = false;; is_told = true) {
    auto place = JobOf(invocation, JobUse::kHere);
    if (place.ok() || place.problem().code != "PL-E022") return place;
    if (agent::MonotonicNow() >= deadline) {
      Problem problem = place.problem();
      if (is_told) Append(&problem.why, "; none has begun within ", ToString(limit));
      return problem;
    }
    if (!is_told) invocation.out.Say(Concat("no job is here yet; waits ", ToString(limit)));
    poll(nullptr, 0, kBirthPauseMilliseconds);
  }
}

}  // namespace

Result<WaitGoal> WaitGoalOf(const std::string& text) {
  if (text == "running" || text == "finished") return WaitGoal{.phase = text};
  if (text.starts_with("step=")) {
    const auto step = ParseInteger(text.substr(5));
    if (step.has_value() && *step >= 0) return WaitGoal{.step = *step};
  }
  return Problem{.code = "PL-E003",
                 .what = "--for cannot be \"" + text + "\"",
                 .where = "the command line",
                 .why = "it takes running, finished or step=N",
                 .fix = "paceline wait --for step=100"};
}

std::optional<int> JudgeWait(const WaitGoal& goal, const wire::JobStatus& status,
                             const JobPlace& place, Output& out) {
  const bool finished = status.phase == "finished";
  if (finished && goal.phase == "finished") {
    const int code = status.exit_code.value_or(kExitDone);
    if (code != kExitDone) {
      out.Say(
          Concat(place.id, " has ended with exit code ", code, ": ", Visible(status.final_reason)));
    }
    return code;
  }
  if (goal.step >= 0 ? status.step >= goal.step : status.phase == goal.phase) return kExitDone;
  if (!finished) return std::nullopt;
  return out.Fail({.code = "PL-E071",
                   .what = "the job ended before it reached the requested state",
                   .where = place.id,
                   .why = status.final_reason,
                   .fix = "paceline why " + NamedByFlag(place)});
}

Problem WaitedTooLong(const JobPlace& place, const std::string& still, Duration patience) {
  return {.code = "PL-E070",
          .what = "the job is not in the requested state after " + FormatDuration(patience),
          .where = place.on.empty() ? place.id : place.on,
          .why = still,
          .fix = "paceline status " + NamedByFlag(place)};
}

FlagTable WaitFlags() { return kWaitFlags; }

int RunWait(Invocation& invocation) {
  Output& out = invocation.out;
  const auto goal = WaitGoalOf(invocation.line.Text("for", "finished"));
  if (!goal.ok()) return out.Fail(goal.problem());
  const Duration patience =
      ParseDuration(invocation.line.Text("timeout")).value_or(Duration::Infinite());
  const auto place = JobThatBegins(invocation, patience);
  if (!place.ok()) return out.Fail(place.problem());
  std::optional<int> code;
  std::string still;  // what it waits for, at the last look
  AskUntil(*place, {.each = kAnswerPatience, .in_all = patience, .also_for_nobody = true},
           [&](const JobPlace& now, Duration limit) {
             const auto status = StatusOf(now, limit);
             still = status.ok() ? status->pending : status.problem().what;
             if (status.ok()) {
               code = JudgeWait(*goal, *status, now, out);
             } else if (!now.is_running()) {
               code = out.Fail(status.problem());
             }
             return code.has_value();
           });
  if (code.has_value()) return *code;
  return out.Fail(WaitedTooLong(*place, still, patience));
}

}  // namespace paceline::cli
