// `paceline attach`: shows from now on what the job's own terminal shows. Ctrl-C ends the command
// and not the job. If the job's launcher is gone, the command says so, because agents are not
// restarted then.

#include <signal.h>

#include <memory>
#include <optional>
#include <string>

#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/console.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/run/narrator.h"
#include "paceline/cli/run/status_line.h"
#include "paceline/wire/codec/spec_file.h"

namespace paceline::cli {
namespace {

constexpr Duration kAttachLook = Duration::Milliseconds(200);
constexpr Duration kTellEvery = Duration::Seconds(5);  // how far the job is, on a pipe
constexpr Duration kAttachPatience = Duration::Seconds(5);

// Blocks the signals that end this command, before any thread exists.
sigset_t BlockLeaving() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t leaving;
  sigemptyset(&leaving);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&leaving, signal);
  ::pthread_sigmask(SIG_BLOCK, &leaving, nullptr);
  return leaving;
}

bool WantsToLeave(const sigset_t& leaving) {
  const timespec at_once{};
  return ::sigtimedwait(&leaving, nullptr, &at_once) > 0;
}

int Ended(const JobPlace& place, Output& out) {
  const auto status = StatusOf(place, kAttachPatience);
  if (!status.ok()) return out.Fail(status.problem());
  if (!status->exit_code.has_value()) {
    if (!place.is_joined && HasAgents(place)) return out.Fail(NobodyLeads(place));
    return out.Fail({.code = "PL-E030",
                     .what = "the job does not run any more, although it has not ended",
                     .where = place.run_dir,
                     .why = "its master and its launcher are gone",
                     .fix = ResumeCommand(place.run_dir)});
  }
  out.Say("Ended: " + Visible(status->final_reason));
  return *status->exit_code;
}

// Returns the exit code, or none if the job has ended.
std::optional<int> Look(const JobPlace& place, Narrator& narrator, const sigset_t& leaving,
                        Output& out) {
  std::optional<int> left;
  AskUntil(place, {.each = kAttachLook}, [&](const JobPlace&, Duration limit) {
    const bool is_over = narrator.IsOverWithin(limit);
    if (!is_over && WantsToLeave(leaving)) {
      out.Say("Left " + place.id + ", which goes on.");
      left = kExitDone;
    }
    return is_over || left.has_value();
  });
  return left;
}

// Finds the job's master, and gets the status from it or from the journal.
struct Found {
  wire::ControlClientOptions client;
  wire::JobStatus status;
};

Result<Found> FindMaster(const JobPlace& place) {
  Result<Found> found = Found{};
  AskUntil(place, {.each = kAttachPatience, .in_all = kAttachPatience},
           [&](const JobPlace& now, Duration limit) {
             const auto client = ControlOptions(now, kAttachPatience);
             const auto status = client.ok() ? StatusOf(now, limit) : client.problem();
             found = status.ok() ? Result<Found>(Found{*client, *status}) : status.problem();
             return found.ok() || found.problem().code != "PL-E030";
           });
  return found;
}

}  // namespace

int RunAttach(Invocation& invocation) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation, JobUse::kWatch);
  if (!place.ok()) return out.Fail(place.problem());
  if (!place->is_running()) return Ended(*place, out);
  const auto card = ReadJobCard(place->run_dir);
  if (!card.ok()) return out.Fail(card.problem());
  const auto spec = wire::ReadSpecFile(place->run_dir + "/spec.json");
  if (!spec.ok()) return out.Fail(ProblemFrom(spec.status()));
  const sigset_t leaving = BlockLeaving();  // FindMaster starts gRPC's threads
  auto found = FindMaster(*place);
  if (!found.ok()) return out.Fail(found.problem());
  auto& [options, status] = *found;

  ConsoleOptions shown =
      ConsoleFor(place->run_dir, card->nodes, spec->job, spec->launch, out.options());
  shown.from_start = false;
  // The job's own launcher already writes the filtered copies.
  shown.spec.duplicate_stdout_filters.clear();
  shown.spec.duplicate_stderr_filters.clear();
  auto console = Console::Start(shown);
  if (!console.ok()) return out.Fail(ProblemFrom(console.status()));
  out.Say(Concat("Attached to ", place->id, ": ", Visible(LiveLine(status)),
                 ". Ctrl-C leaves it running."));
  if (!place->has_launcher()) {
    out.Say("note: " + NoLauncherText(*place));
  }
  options.timeout = kStatusLinePatience;
  wire::ControlClient client(options);
  Narrator narrator(client, place->run_dir, **console, status.last_seq);
  auto status_line = std::make_unique<StatusLine>(
      client, **console,
      StatusLine::Place{.has_live_line = shown.has_live_line, .tell_every = kTellEvery});
  const std::optional<int> left = Look(*place, narrator, leaving, out);
  status_line.reset();
  if (left.has_value()) {
    narrator.Leave();
  } else {
    narrator.Finish();
  }
  console->reset();
  return left.has_value() ? *left : Ended(*place, out);
}

}  // namespace paceline::cli
