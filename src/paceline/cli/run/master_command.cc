// `paceline master`: the job's master. Started by `paceline run`.

#include <string>

#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/settings/value.h"
#include "paceline/master/main.h"

namespace paceline::cli {

FlagTable MasterFlags() {
  static constexpr Flag kFlags[] = {
      {.dest = "run_dir",
       .spellings = {"--run-dir"},
       .metavar = "DIR",
       .help = "the job's run directory"},
      {.dest = "listen",
       .spellings = {"--listen"},
       .metavar = "HOST:PORT",
       .help = "where agents and commands find it"},
      {.dest = "insecure",
       .spellings = {"--insecure"},
       .kind = FlagKind::kSwitch,
       .help = "an open address without encryption"},
      {.dest = "resumes",
       .spellings = {"--resumes"},
       .kind = FlagKind::kSwitch,
       .help = "a user started the job again: one that ended without storage goes on"},
      {.dest = "term",
       .spellings = {"--term"},
       .kind = FlagKind::kInteger,
       .metavar = "N",
       .help = "which of the job's masters it is, from 1, as its platform counts them"},
      {.dest = "survivors",
       .spellings = {"--survivors"},
       .kind = FlagKind::kInteger,
       .metavar = "N",
       .help = "nodes of the job that live when a later one starts"},
      {.dest = "ready_fd",
       .spellings = {"--ready-fd"},
       .kind = FlagKind::kInteger,
       .metavar = "FD",
       .help = "open descriptor that gets a byte when it serves"},
  };
  return kFlags;
}

int RunMasterCommand(Invocation& invocation) {
  master::MasterOptions options;
  if (const Given* given = invocation.line.Find("run_dir")) options.run_dir = given->value;
  if (const Given* given = invocation.line.Find("listen")) options.listen = given->value;
  options.insecure = invocation.line.Has("insecure");
  options.resumes = invocation.line.Has("resumes");
  if (const Given* given = invocation.line.Find("term")) {
    options.term = static_cast<uint64_t>(ParseInteger(given->value).value_or(0));
  }
  if (const Given* given = invocation.line.Find("survivors")) {
    options.survivors = static_cast<uint32_t>(ParseInteger(given->value).value_or(0));
  }
  if (const Given* given = invocation.line.Find("ready_fd")) {
    options.ready_fd = static_cast<int>(ParseInteger(given->value).value_or(-1));
  }
  const absl::Status served = master::RunMaster(options);
  if (served.ok()) return kExitDone;
  return invocation.out.Fail(ProblemFrom(served));
}

}  // namespace paceline::cli
