// `paceline master`: the job's master. Started by `paceline run`.

#include <string>

#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/page/live.h"
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
      {.dest = "memo",
       .spellings = {"--memo"},
       .metavar = "TEXT",
       .help = "what the platform has kept of the job's masters before"},
      {.dest = "ready_fd",
       .spellings = {"--ready-fd"},
       .kind = FlagKind::kInteger,
       .metavar = "FD",
       .help = "open descriptor that gets a byte when it serves"},
  };
  return kFlags;
}

int RunMasterCommand(Invocation& invocation) {
  const ParsedLine& line = invocation.line;
  master::MasterOptions options;
  options.run_dir = line.Text("run_dir");
  options.listen = line.Text("listen", options.listen);
  options.insecure = line.Has("insecure");
  options.resumes = line.Has("resumes");
  options.term = static_cast<uint64_t>(line.Number("term", 0));
  options.survivors = static_cast<uint32_t>(line.Number("survivors", 0));
  options.memo = line.Text("memo");
  options.page = LivePage(options.run_dir);
  options.ready_fd = static_cast<int>(line.Number("ready_fd", -1));
  const absl::Status served = master::RunMaster(options);
  if (served.ok()) return kExitDone;
  return invocation.out.Fail(ProblemFrom(served));
}

}  // namespace paceline::cli
