// `paceline run`: prepares this host, then is launcher and console until the job ends.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/console.h"
#include "paceline/cli/console/error_file.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/console/traces_shown.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/run/detach.h"
#include "paceline/cli/run/earlier_runs.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/launcher.h"
#include "paceline/cli/run/lone_stop.h"
#include "paceline/cli/run/lost_output.h"
#include "paceline/cli/run/narrator.h"
#include "paceline/cli/run/placed_flags.h"
#include "paceline/cli/run/prepare.h"
#include "paceline/cli/run/request.h"
#include "paceline/cli/run/resume_here.h"
#include "paceline/cli/run/resume_note.h"
#include "paceline/cli/run/status_line.h"
#include "paceline/cli/settings/value.h"
#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/model/task.h"
#include "paceline/model/version.h"
#include "paceline/plan/json.h"

namespace paceline::cli {
namespace {

// Tells ranks that the script has to train by a plan; also the name of the setting launch.plan.
constexpr char kPlanVariable[] = "PACELINE_LAUNCH_PLAN";

// Where the launcher's lines go before the console exists.
void WaitNote(const std::string& text) {
  const std::string line = Concat("paceline: ", text, "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// In a container `paceline run` may be PID 1, for which the kernel drops signals that have no
// handler. Until the launcher handles these signals, they end this process, as they would another
// one. Otherwise the deletion of a pod that waits for its master would take the whole grace period.
void EndBySignals(const std::vector<int>& stop_signals) {
  if (::getpid() != 1) return;
  for (const int signal : stop_signals) {
    ::signal(signal, [](int which) { ::_exit(128 + which); });
  }
}

// The launcher reads these signals from a descriptor, so they are blocked before any thread exists.
// A SIGHUP that was ignored already, as by nohup, stays ignored.
void BlockSignals(const std::vector<int>& stop_signals) {
  const bool has_nohup = ::signal(SIGHUP, SIG_IGN) == SIG_IGN;
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : stop_signals) {
    if (signal != SIGHUP || !has_nohup) sigaddset(&blocked, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

// The master serves: reports to the waiting parent of a detached launcher, if there is one, and
// lets the next `paceline run` look at the master's port.
void TellServing(Fd* serving, Fd* port_turn) {
  port_turn->Close();
  [[maybe_unused]] const ssize_t written =
      serving->is_open() ? ::write(serving->get(), "s", 1) : ssize_t{0};
  serving->Close();
}

std::string Greeting(const PreparedRun& run) {
  const size_t here = run.card.nodes.size();
  const uint32_t least = run.spec.nodes_min;
  const uint32_t most = run.spec.nodes_max;
  // Of a job on several hosts, this command starts a part.
  const std::string nodes =
      here >= most ? Concat(here)
                   : Concat(here, " of ", least < most ? Concat(least, " to ") : "", most);
  return Concat("paceline ", kVersionMajor, ".", kVersionMinor, ".", kVersionPatch, " · job ",
                run.spec.job_id, " · ", nodes, most == 1 ? " node × " : " nodes × ",
                run.spec.nproc_per_node, run.spec.nproc_per_node == 1 ? " rank" : " ranks",
                run.spec.spares > 0 ? Concat(", ", run.spec.spares, " of them spare") : "", " · ",
                run.dir.path,
                run.dir.is_temporary
                    ? "\nnote: neither this directory nor a home can be written, "
                      "so a reboot loses the run directory; --run-dir names another"
                    : "");
}

LauncherOptions LauncherFor(const PreparedRun& run, const RunRequest& request,
                            const std::string& binary) {
  LauncherOptions options;
  options.platform = {binary, run.dir.path, run.runtime_dir, run.card.job_id};
  options.card = run.card;
  options.spec = run.spec;
  options.listen = run.listen;
  options.insecure = run.card.insecure;
  options.resumes = run.is_resumed;
  options.is_whole_job = run.is_whole_job;
  options.incarnation = request.incarnation;
  options.term = request.term;
  options.survivors = request.survivors;
  options.memo = request.memo;
  options.notify_end_wait = run.launch.notify_end_wait();
  options.platform_grace = request.platform_grace;
  options.stop_signals = request.stop_signals;
  options.credentials = run.credentials;
  options.relays = run.launch.relays;
  return options;
}

StatusLine::Place StatusPlaceOf(const PreparedRun& run, const Launcher& launcher,
                                bool has_live_line, LostOutput* lost) {
  return {.has_live_line = has_live_line,
          .has_master = run.card.has_master,
          .is_linked = [&launcher] { return launcher.is_linked(); },
          .was_over = run.former_end.has_value(),
          .master_address = run.card.master_address,
          .orphan_after = run.spec.timers.orphan_after,
          .run_dir = run.dir.path,
          .lost = lost};
}

Problem FailureOf(const JobEnd& end, const Story& story, const JobPlace& place,
                  const std::string& run_dir) {
  Problem problem{.code = "PL-E060",
                  .what = end.reason.empty() ? "training failed" : end.reason,
                  .where = "",
                  .why = "",
                  .fix = "paceline why " + NamedByFlag(place)};
  if (story.root.has_value()) {
    problem.where = Concat(
        RankTitle(Rank(story.root->rank)), " on ", story.root->node,
        story.root->step.value_or(-1) >= 0 ? Concat(", step ", *story.root->step) : std::string());
    const bool is_said =
        !story.root->headline.empty() && end.reason.find(story.root->headline) != std::string::npos;
    if (!is_said || !story.root->was_started) problem.why = story.root->sentence;
    if (!story.root->was_started) {
      problem.code = "PL-E065";
      problem.fix = Concat("fix the cause that is named above; ", run_dir, "/logs/",
                           story.root->node, "/starter.log tells more");
    }
  }
  return problem;
}

// What to do before the job is resumed, so that its last step gets to storage.
std::string MendingOf(const NotStored& left) {
  if (left.reason == core::kDirectoryUnknown) return "";
  if (left.reason == core::kPartIsLost) return "on each host, also in place of the lost one:\n";
  return core::IsForGood(left.reason) ? "move that directory away, then\n"
                                      : "repair the storage, then\n";
}

std::string_view WhereItStays(const NotStored& left) {
  if (left.reason == core::kPartIsLost) {
    return "the other hosts keep their part (/dev/shm) until they are rebooted or `paceline clean` "
           "removes it; ranks with equal state, as with DDP, go on from it, and others from the "
           "newest checkpoint";
  }
  return "the step stays in the memory of the hosts (/dev/shm) until they are rebooted or "
         "`paceline clean` removes it";
}

// Prints where the last step is, and which command writes it to storage.
Problem NotStoredProblem(const NotStored& left, const std::string& run_dir) {
  return {.code = "PL-E066",
          .what = Concat("the last saved step, ", left.step, ", is not in storage"),
          .where = left.directory,
          .why = Concat(left.reason, "; ", WhereItStays(left)),
          .fix = Concat(MendingOf(left), ResumeCommand(run_dir))};
}

int Conclude(Output& out, const JobEnd& end, const Story& story, const RunRequest& request,
             const PreparedRun& run, const std::string& lost, const Environment& environment) {
  const std::string& run_dir = run.dir.path;
  if (end.exit_code != kExitDone && !lost.empty()) out.Say(Concat("note: ", lost, "."));
  if (end.exit_code == kExitDone) {
    out.Say(Concat("Done",
                   story.worlds > 1
                       ? Concat(" after ", story.worlds, " worlds and ", story.failures,
                                story.failures == 1 ? " failure" : " failures", " of ranks")
                       : std::string(),
                   lost.empty() ? "." : Concat(". But ", lost, ".")));
    return kExitDone;
  }
  const bool is_left = story.not_stored.has_value() && story.not_stored->is_final;
  if (end.exit_code == kExitNotStored && is_left) {
    out.Fail(NotStoredProblem(*story.not_stored, run_dir));
    return kExitNotStored;
  }
  if (end.exit_code == kExitTrainingFailed) {
    if (story.root.has_value() && !story.root->traceback.empty()) {
      out.Say(Concat("First failure in world ", story.root->world, ", rank ", story.root->rank,
                     " on ", story.root->node, ":\n", VisibleLines(story.root->traceback)));
    }
    JobPlace place;
    place.id = run.card.job_id;
    place.on = LookupOr(environment, kOnVariable, "");
    out.Fail(FailureOf(end, story, place, run_dir));
    if (is_left) out.Warn(NotStoredProblem(*story.not_stored, run_dir));
    if (request.passthrough_exit && story.root.has_value()) {
      return story.root->rank_exit_code.value_or(kExitTrainingFailed);
    }
  } else {
    out.Say(Concat("Ended: ", Visible(end.reason)));
    if (is_left) out.Warn(NotStoredProblem(*story.not_stored, run_dir));
  }
  return end.exit_code;
}

// Writes the file of a failed job. Then it forgets a trace that the console has shown whole: the
// end does not repeat such a trace.
void KeepRoot(const Invocation& invocation, const PreparedRun& run, const JobEnd& end,
              const TracesShown& traces, RootFailure* root) {
  if (end.exit_code == kExitTrainingFailed) {
    WriteErrorFile(invocation.environment, *root, run.dir.path);
  }
  if (traces.Has(root->generation, root->rank, root->traceback)) root->traceback.clear();
}

// "100", "30s", "auto": as _checkpoint/interval.py reads it, refused here before anything starts.
bool IsInterval(const std::string& text) {
  if (text.empty() || text == "auto") return true;
  if (const auto steps = ParseInteger(text); steps.has_value()) return *steps > 0;
  const auto time = ParseDuration(text);
  return time.has_value() && time->nanoseconds() > 0 && text != "never";
}

// Ranks inherit these variables through their agent. In paceline._checkpoint they override the
// script's arguments.
Check PassOnCheckpointTerms(const SettingValues& settings) {
  for (const char* key : {"checkpoint.every", "checkpoint.keep"}) {
    const SettingValue& value = settings.Get(key);
    if (value.text.empty()) continue;
    if (std::string_view(key) == "checkpoint.every" && !IsInterval(value.text)) {
      return Problem{.code = "PL-E003",
                     .what = "checkpoints cannot be stored every \"" + value.text + "\"",
                     .where = value.origin,
                     .why = "it is a number of steps, a time with a unit, or auto",
                     .fix = "--ckpt-every 100, --ckpt-every 30s"};
    }
    ::setenv(FindSetting(key)->EnvironmentName().c_str(), value.text.c_str(), 1);
  }
  return std::nullopt;
}

// Ranks inherit it through their agent; paceline._rank.planned requires the plan.
Check PassOnPlan(const SettingValues& settings) {
  const SettingValue& value = settings.Get("launch.plan");
  if (value.text.empty() || value.text == "auto") {
    if (!value.text.empty()) ::setenv(kPlanVariable, "auto", 1);
    return std::nullopt;
  }
  std::error_code failed;
  const std::string path = std::filesystem::absolute(value.text, failed).string();
  const bool is_there = std::filesystem::exists(path, failed);
  const auto plan = plan::ReadPlan(ReadText(path, plan::kChosenTextMax + 1));
  if (!plan.ok()) {
    return Problem{.code = "PL-E120",
                   .what = "the plan's file cannot be used",
                   .where = value.text,
                   .why = is_there ? plan.failure().message : "there is no such file",
                   .fix = "--plan auto, or a file that paceline plan --json has printed"};
  }
  ::setenv(kPlanVariable, path.c_str(), 1);
  return std::nullopt;
}

// A host that joined has no journal. There job.json says how the job ended, for later commands.
void KeepEnd(PreparedRun& run, const std::optional<JobEnd>& end) {
  if (run.card.has_master || !end.has_value()) return;
  run.card.end = end;
  SaveJobCard(run.card, run.dir.path, run.runtime_dir);
}

// The reason of the job's end if its exit code was 0, so that it is not run again.
std::optional<std::string> EndedWell(const PreparedRun& run) {
  if (!run.is_resumed) return std::nullopt;
  if (!run.card.has_master) {
    if (!run.former_end.has_value() || run.former_end->exit_code != 0) return std::nullopt;
    return run.former_end->reason;
  }
  const auto status = StatusFromJournal({.id = run.card.job_id, .run_dir = run.dir.path});
  if (!status.ok() || status->phase != "finished" || status->exit_code != 0) return std::nullopt;
  return status->final_reason;
}

int SayEndedWell(Output& out, const PreparedRun& run, const std::string& reason) {
  out.Say(Concat(run.card.job_id, " has ended already with exit code 0: ", Visible(reason),
                 ". Nothing is run again. A new job needs another --run-dir."));
  return kExitDone;
}

// On a host that joined a job which has failed or was stopped.
void SayEndedBefore(Output& out, const PreparedRun& run) {
  if (!run.former_end.has_value()) return;
  out.Say(Concat("This host last heard that the job had ended with exit code ",
                 run.former_end->exit_code, ": ", Visible(run.former_end->reason),
                 ". It goes on when `paceline run --resume` is typed on the host of the master, ",
                 run.card.master_address, "; this host waits for that."));
}

// Prints one line about what a resumed job did before. Returns the last event that the narrator
// needs not print; none: it is on another host, whose master knows it.
std::optional<uint64_t> SayBefore(Output& out, const PreparedRun& run) {
  if (!run.is_resumed) return 0;
  if (!run.card.has_master) return std::nullopt;
  EarlierRuns before;
  EventsFromJournal({.id = run.card.job_id, .run_dir = run.dir.path}, 1, [&](const auto& event) {
    before.Add(event);
    return true;
  });
  if (const std::string text = before.Text(run.card.job_id); !text.empty()) out.Say(text);
  return before.last_seq();
}

// Returns what SayBefore returns.
std::optional<uint64_t> SayStart(Output& out, const ParsedLine& line, const PreparedRun& run) {
  const std::string ignored = run.is_resumed ? IgnoredByResume(line, run.card.argv) : "";
  if (!ignored.empty()) out.Say(Concat("note: ", ignored));
  out.Say(Greeting(run));
  if (!run.join_string.empty()) {
    out.Say(Concat("Other hosts join with:  --join '", run.join_string, "'"));
  }
  const std::optional<uint64_t> told_seq = SayBefore(out, run);
  SayEndedBefore(out, run);
  return told_seq;
}

void RecordStop(Console& console, const PreparedRun& run, const JobEnd& end) {
  const absl::Status recorded = RecordLoneStop(run.dir.path, end);
  if (recorded.ok()) return;
  console.Narrate(
      Concat("paceline: the stop could not be recorded, so `paceline status` shows the "
             "job as it was before: ",
             Text(recorded)));
}

// A directory that cannot be read is reported when it is opened.
Check KeepFirstFlags(Invocation& invocation) {
  if (Check problem = TakeJobToResume(invocation)) return problem;
  const std::string& asked = invocation.settings.Text("job.run_dir");
  if (!invocation.line.Has("resume") || asked.empty()) return std::nullopt;
  const auto dir = RunDirOf(asked, invocation.environment);
  if (!dir.ok()) return std::nullopt;
  const auto card = ReadJobCard(*dir);
  if (!card.ok()) return std::nullopt;
  invocation.line = WithFirstFlags(std::move(invocation.line), card->argv, card->cwd);
  auto settings = LoadSettings(StandardSources(invocation.environment, &invocation.line));
  if (!settings.ok()) return settings.problem();
  invocation.settings = *std::move(settings);
  return std::nullopt;
}

Check TakeFlags(Invocation& invocation) {
  if (Check problem = CheckPlacedFlags(invocation.line)) return problem;
  if (Check problem = KeepFirstFlags(invocation)) return problem;
  if (Check problem = PassOnCheckpointTerms(invocation.settings)) return problem;
  return PassOnPlan(invocation.settings);
}

}  // namespace

int RunRun(Invocation& invocation) {
  Output& out = invocation.out;
  const auto refuse = [&](const Problem& problem) {
    return RefuseStart(out, invocation.environment, problem);
  };
  if (Check problem = TakeFlags(invocation)) return refuse(*problem);
  const HostFacts facts = ReadHostFacts(invocation.environment);
  auto request =
      MakeRunRequest(invocation.line, invocation.settings, invocation.environment, facts);
  if (!request.ok()) return refuse(request.problem());
  for (const std::string& note : request->notes) out.Say(Concat("note: ", note));
  // SIGPIPE is ignored: neither a reader that has ended (| head) nor a master that ends while this
  // host joins may kill this process without a message.
  ::signal(SIGPIPE, SIG_IGN);
  EndBySignals(request->stop_signals);
  auto prepared = PrepareRun({*request, invocation.args, invocation.environment, facts, &WaitNote});
  if (!prepared.ok()) return refuse(prepared.problem());
  PreparedRun run = std::move(prepared.value());
  if (const auto why = EndedWell(run); why.has_value()) return SayEndedWell(out, run, *why);
  const std::optional<uint64_t> told_seq = SayStart(out, invocation.line, run);
  Fd serving;
  if (request->detach) {
    if (const std::optional<int> exit_code = Detach(run, out, &serving)) return *exit_code;
  }
  BlockSignals(request->stop_signals);

  ConsoleOptions shown =
      ConsoleFor(run.dir.path, run.card.nodes, run.spec, run.launch, out.options());
  shown.from_start = !run.is_resumed;
  TracesShown traces;
  shown.traces_shown = &traces;
  auto console = Console::Start(shown);
  if (!console.ok()) return out.Fail(ProblemFrom(console.status()));
  LauncherOptions options = LauncherFor(run, *request, facts.binary_dir + "/paceline");
  options.narrate = [raw = console->get()](std::string text) {
    raw->Narrate("paceline: " + std::move(text));
  };
  options.serving = [&serving, &run] { TellServing(&serving, &run.port_turn); };
  // One connection to the master serves events and requests.
  wire::ControlClient client({.address = run.card.master_address,
                              .credentials = run.credentials,
                              .timeout = kStatusLinePatience});
  auto launcher = Launcher::Create(std::move(options));
  if (!launcher.ok()) return out.Fail(ProblemFrom(launcher.status()));
  auto narrator =
      std::make_unique<Narrator>(client, run.dir.path, **console, told_seq, run.card.job_id);
  LostOutput lost(run.dir.path, run.card.nodes);
  auto status_line = std::make_unique<StatusLine>(
      client, **console, StatusPlaceOf(run, **launcher, shown.has_live_line, &lost));
  const JobEnd end = (*launcher)->Run();
  if ((*launcher)->has_stopped_alone()) RecordStop(**console, run, end);
  if (run.spec.is_placed && run.card.has_master) TellPlatform(end.exit_code, end.reason);
  KeepEnd(run, (*launcher)->told_end());
  status_line.reset();
  Story story = narrator->Finish();
  narrator.reset();
  console->reset();
  if (story.root.has_value()) KeepRoot(invocation, run, end, traces, &*story.root);
  return Conclude(out, end, story, *request, run, lost.Text(), invocation.environment);
}

}  // namespace paceline::cli
