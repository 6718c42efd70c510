#include <algorithm>

#include "paceline/cli/command.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/run/flags.h"

namespace paceline::cli {

namespace {

// In the order of `paceline --help`.
const Command kCommands[] = {
    {.name = "run",
     .summary = "train: torchrun's flags, kept going through failures",
     .usage = "[FLAGS] SCRIPT [ARGS…]",
     .handler = RunRun,
     .flags = {RunFlags(), TorchrunFlags()},
     .stops_at_script = true},
    {.name = "submit",
     .summary = "train on a cluster",
     .usage = "--on kubernetes[/NAMESPACE]|ray [--nodes MIN:MAX] [FLAGS] SCRIPT [ARGS…]",
     .handler = RunSubmit,
     .flags = {SubmitFlags()},
     .stops_at_script = true},
    {.name = "status",
     .summary = "show the job: phase, step, nodes, ranks",
     .usage = "[--job ID|DIR]",
     .handler = RunStatus,
     .flags = {JobFlags()}},
    {.name = "attach",
     .summary = "show a running job as its own terminal does; Ctrl-C leaves it running",
     .usage = "[--job ID|DIR]",
     .handler = RunAttach,
     .flags = {JobFlags()}},
    {.name = "plan",
     .summary = "say how a model would run on a cluster, and why",
     .usage = "--cluster TYPE:COUNT,… (SCRIPT [ARGS…] | --model NAME) [--why-not AXIS=VALUE] | "
              "--show [--job ID|DIR]",
     .handler = RunPlan,
     .flags = {PlanFlags(), JobFlags()},
     .stops_at_script = true},
    {.name = "profile",
     .summary = "measure this machine's devices and links, for plans",
     .usage = "[--processes N] [SCRIPT [ARGS…]]",
     .handler = RunProfile,
     .flags = {ProfileFlags()},
     .stops_at_script = true},
    {.name = "ps",
     .summary = "list your jobs and warm starters on this host",
     .usage = "[--all]",
     .handler = RunPs,
     .flags = {PsFlags()}},
    {.name = "why",
     .summary = "explain the job's last incident, an event by its NUMBER in `events`, or an error",
     .usage = "[NUMBER | PL-E012] [--evidence]",
     .handler = RunWhy,
     .flags = {WhyFlags(), JobFlags()},
     .positionals_max = 1},
    {.name = "stacks",
     .summary = "show where every rank is now, equal stacks once",
     .usage = "[--rank N]",
     .handler = RunStacks,
     .flags = {StacksFlags(), JobFlags()}},
    {.name = "events",
     .summary = "list what happened, in the journal's order",
     .usage = "[--since TIME] [--kind KIND,…] [--follow]",
     .handler = RunEvents,
     .flags = {EventsFlags(), JobFlags()}},
    {.name = "goodput",
     .summary = "show where the ranks' time went, and the costliest incidents",
     .usage = "[--job ID|DIR]",
     .handler = RunGoodput,
     .flags = {JobFlags()}},
    {.name = "open",
     .summary = "print a link to the live page of a running job, and open it",
     .usage = "[--job ID|DIR]",
     .handler = RunOpen,
     .flags = {JobFlags()}},
    {.name = "report",
     .summary = "write the job as one HTML page, to look at, keep or mail",
     .usage = "[-o FILE] [--job ID|DIR]",
     .handler = RunReport,
     .flags = {ReportFlags(), JobFlags()}},
    {.name = "trace",
     .summary = "write what this host's ranks did last, for Perfetto",
     .usage = "[--last TIME] [-o FILE] [--job ID|DIR]",
     .handler = RunTrace,
     .flags = {TraceFlags(), JobFlags()}},
    {.name = "logs",
     .summary = "show what the ranks wrote",
     .usage = "[--rank N] [--node NAME] [-f]",
     .handler = RunLogs,
     .flags = {LogsFlags(), JobFlags()}},
    {.name = "wait",
     .summary = "return when the job runs, reaches a step or has finished",
     .usage = "[--for running|step=N|finished] [--timeout TIME]",
     .handler = RunWait,
     .flags = {WaitFlags(), JobFlags()}},
    {.name = "scale",
     .summary = "show or change the number of nodes while the job trains",
     .usage = "[--nodes N] [--now] [--dry-run]",
     .handler = RunScale,
     .flags = {ScaleFlags(), JobFlags()}},
    {.name = "stop",
     .summary = "stop the job: SIGTERM to its ranks, SIGKILL after the grace",
     .usage = "[--stop-grace TIME] [--force] [--dry-run]",
     .handler = RunStop,
     .flags = {StopFlags(), JobFlags()}},
    {.name = "ckpt",
     .summary = "list, show, verify, compare, copy, remove, export, import and rescue checkpoints",
     .usage = "ls|show|verify DIR[/CHECKPOINT]|RUN_DIR | rm DIR/CHECKPOINT | diff A B | "
              "copy FROM TO | "
              "export DIR OUT | import SOURCE DIR | rescue [JOB|RUN_DIR]",
     .handler = RunCkpt,
     .flags = {CkptFlags()},
     .positionals_max = 3},
    {.name = "data",
     .summary = "list the data sets that the job leases, or say who consumed a sample",
     .usage = "ls|show NAME|trace SAMPLE [--data NAME] [--checkpoint DIR]",
     .handler = RunData,
     .flags = {DataFlags(), JobFlags()},
     .positionals_max = 2},
    {.name = "doctor",
     .summary = "check this host: limits, ports, directories, Python, torch",
     .usage = "",
     .handler = RunDoctor},
    {.name = "clean",
     .summary = "remove what dead jobs and starters left behind",
     .usage = "[RUN_DIR…] [--older-than TIME] [--yes] [--dry-run]",
     .handler = RunClean,
     .flags = {CleanFlags()},
     .positionals_max = 1000},
    {.name = "config",
     .summary = "show settings and where each comes from",
     .usage = "show [--origin] [KEY] | docs settings|errors|flags|classes|metrics",
     .handler = RunConfig,
     .flags = {ConfigFlags()},
     .positionals_max = 1000},
    {.name = "sim",
     .summary = "run the job's decisions in simulated clusters, from a seed",
     .usage = "[--seed S] [--seeds N]",
     .handler = RunSimCommand,
     .flags = {SimFlags()}},
    {.name = "completion",
     .summary = "print the completion script of a shell",
     .usage = "bash|zsh|fish",
     .handler = RunCompletion,
     .positionals_max = 1},
    {.name = "version", .summary = "print the version", .usage = "", .handler = RunVersion},
    {.name = "master",
     .summary = "the job's master",
     .usage = "--run-dir DIR --listen HOST:PORT",
     .handler = RunMasterCommand,
     .flags = {MasterFlags()},
     .hidden = true},
    {.name = "keeper",
     .summary = "keeps the checkpoints of a process without a launcher",
     .usage = "--socket PATH --job-id ID",
     .handler = RunKeeperCommand,
     .flags = {KeeperFlags()},
     .hidden = true},
    {.name = "place",
     .summary = "acts for a platform whose adapter starts the job's nodes",
     .usage = "--credentials DIR (--make JOB | --address HOST:PORT)",
     .handler = RunPlace,
     .flags = {PlaceFlags()},
     .hidden = true},
    {.name = "agent",
     .summary = "a node's agent",
     .usage = "--run-dir DIR --node NAME --runtime-dir DIR",
     .handler = RunAgentCommand,
     .flags = {AgentFlags()},
     .hidden = true},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  const auto all = Commands();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<FlagTable> TablesOf(const Command& command) {
  std::vector<FlagTable> tables;
  for (const FlagTable table : command.flags) {
    if (!table.empty()) tables.push_back(table);
  }
  tables.push_back(GlobalFlags());
  return tables;
}

}  // namespace paceline::cli
