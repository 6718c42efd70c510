#include <vector>

#include "paceline/cli/command.h"
#include "paceline/sim/main.h"

namespace paceline::cli {

namespace {

using enum FlagKind;

constexpr int64_t kSimulatedSecondsMax = 1'000'000;
constexpr int64_t kHostsMax = 100'000;

// The simulator reads its words itself; the table is for help, completion, misspelt flags and
// values of another form.
constexpr Flag kSimFlags[] = {
    {.dest = "seed",
     .spellings = {"--seed"},
     .kind = kInteger,
     .metavar = "S",
     .help = "first seed; 1 by default",
     .minimum = 0},
    {.dest = "seeds",
     .spellings = {"--seeds"},
     .kind = kInteger,
     .metavar = "N",
     .help = "how many seeds; 1 by default",
     .minimum = 1},
    {.dest = "cpu_seconds",
     .spellings = {"--cpu-seconds"},
     .kind = kInteger,
     .metavar = "S",
     .help = "stop drawing seeds after this much CPU time",
     .minimum = 1},
    {.dest = "until",
     .spellings = {"--until"},
     .kind = kInteger,
     .metavar = "S",
     .help = "faults end after S simulated seconds",
     .minimum = 0,
     .maximum = kSimulatedSecondsMax},
    {.dest = "nodes",
     .spellings = {"--nodes"},
     .kind = kInteger,
     .metavar = "N",
     .help = "at most N hosts",
     .minimum = 1,
     .maximum = kHostsMax},
    {.dest = "crash_at_record",
     .spellings = {"--crash-at-record"},
     .kind = kInteger,
     .metavar = "N",
     .help = "kill the master when record N was written",
     .minimum = 1},
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
     .kind = kChoice,
     .metavar = "on|off",
     .help = "all scripts have a Checkpointer, or none has (default: a third of the seeds)",
     .choices = "on|off"},
    {.dest = "log",
     .spellings = {"--log"},
     .kind = kChoice,
     .metavar = "full|none",
     .help = "print one line for each event",
     .choices = "full|none"},
    {.dest = "canary",
     .spellings = {"--canary"},
     .metavar = "NAME|all",
     .help = "plant a bug that the checks must find"},
    {.dest = "shrink",
     .spellings = {"--shrink"},
     .kind = kSwitch,
     .help = "make a failing seed smaller"},
    {.dest = "marks",
     .spellings = {"--marks"},
     .kind = kSwitch,
     .help = "list situations never reached"},
    {.dest = "list",
     .spellings = {"--list"},
     .kind = kSwitch,
     .help = "list faults, checks and canaries"},
    {.dest = "tables",
     .spellings = {"--tables"},
     .kind = kSwitch,
     .help = "worlds of table servers whose partitions move, instead of jobs"},
    {.dest = "leases",
     .spellings = {"--leases"},
     .kind = kSwitch,
     .help = "simulate leased data instead of jobs; docs/guides/simulator.md"},
    {.dest = "faulty_steps",
     .spellings = {"--faulty-steps"},
     .kind = kInteger,
     .metavar = "N",
     .help = "with --leases: after N steps nothing fails any more; 3000 by default",
     .minimum = 0},
    {.dest = "bench",
     .spellings = {"--bench"},
     .kind = kSwitch,
     .help = "measure the simulator itself"},
};

}  // namespace

FlagTable SimFlags() { return kSimFlags; }

int RunSimCommand(Invocation& invocation) {
  std::string wrong;
  const int code = sim::RunSimCommand(invocation.args, &wrong);
  if (wrong.empty()) return code;
  return invocation.out.Fail({.code = "PL-E003",
                              .what = "the simulator cannot run with these flags",
                              .where = "the command line",
                              .why = wrong,
                              .fix = "paceline sim --list, or paceline sim --help"});
}

}  // namespace paceline::cli
