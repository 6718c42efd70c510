#include <vector>

#include "paceline/cli/command.h"
#include "paceline/sim/main.h"

namespace paceline::cli {

namespace {

// The simulator reads its words itself; the table is for help, completion and misspelt flags.
constexpr Flag kSimFlags[] = {
    {.dest = "seed", .spellings = {"--seed"}, .metavar = "S", .help = "first seed; 1 by default"},
    {.dest = "seeds",
     .spellings = {"--seeds"},
     .metavar = "N",
     .help = "how many seeds; 1 by default"},
    {.dest = "cpu_seconds",
     .spellings = {"--cpu-seconds"},
     .metavar = "S",
     .help = "stop drawing seeds after this much CPU time"},
    {.dest = "until",
     .spellings = {"--until"},
     .metavar = "S",
     .help = "faults end after S simulated seconds"},
    {.dest = "nodes", .spellings = {"--nodes"}, .metavar = "N", .help = "at most N hosts"},
    {.dest = "crash_at_record",
     .spellings = {"--crash-at-record"},
     .metavar = "N",
     .help = "kill the master when record N was written"},
    {.dest = "fault",
     .spellings = {"--fault"},
     .metavar = "NAMES",
     .help = "only these faults, separated by commas"},
    {.dest = "without",
     .spellings = {"--without"},
     .metavar = "NAMES",
     .help = "all faults but these"},
    {.dest = "keep",
     .spellings = {"--keep"},
     .metavar = "NUMBERS",
     .help = "only the strikes (faults of the seed) with these numbers"},
    {.dest = "saves",
     .spellings = {"--saves"},
     .metavar = "on|off",
     .help = "all scripts have a Checkpointer, or none has (default: a third of the seeds)"},
    {.dest = "log",
     .spellings = {"--log"},
     .metavar = "full|none",
     .help = "print one line for each event"},
    {.dest = "canary",
     .spellings = {"--canary"},
     .metavar = "NAME|all",
     .help = "plant a bug that the checks must find"},
    {.dest = "shrink",
     .spellings = {"--shrink"},
     .kind = FlagKind::kSwitch,
     .help = "make a failing seed smaller"},
    {.dest = "marks",
     .spellings = {"--marks"},
     .kind = FlagKind::kSwitch,
     .help = "list situations never reached"},
    {.dest = "list",
     .spellings = {"--list"},
     .kind = FlagKind::kSwitch,
     .help = "list faults, checks and canaries"},
    {.dest = "leases",
     .spellings = {"--leases"},
     .kind = FlagKind::kSwitch,
     .help = "simulate leased data instead of jobs; docs/guides/simulator.md"},
    {.dest = "faulty_steps",
     .spellings = {"--faulty-steps"},
     .metavar = "N",
     .help = "with --leases: after N steps nothing fails any more; 3000 by default"},
    {.dest = "bench",
     .spellings = {"--bench"},
     .kind = FlagKind::kSwitch,
     .help = "measure the simulator itself"},
};

}  // namespace

FlagTable SimFlags() { return kSimFlags; }

int RunSimCommand(Invocation& invocation) { return sim::RunSimCommand(invocation.args); }

}  // namespace paceline::cli
