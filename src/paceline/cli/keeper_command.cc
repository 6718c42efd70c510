// `paceline keeper`: keeps the checkpoints of a process that no launcher started. Started by
// paceline.torch.Checkpointer; by hand never.

#include <string>

#include "paceline/agent/private_keeper.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/cli/command.h"
#include "paceline/cli/value.h"

namespace paceline::cli {

FlagTable KeeperFlags() {
  static constexpr Flag kFlags[] = {
      {.dest = "socket",
       .spellings = {"--socket"},
       .metavar = "PATH",
       .help = "where the process finds it"},
      {.dest = "job",
       .spellings = {"--job-id"},
       .metavar = "ID",
       .help = "the same for every run that saves to the same directory"},
      {.dest = "python",
       .spellings = {"--python"},
       .metavar = "PATH",
       .help = "the interpreter of the process"},
      {.dest = "tier",
       .spellings = {"--tier"},
       .metavar = "DIR",
       .help = "where it keeps on a local disk what goes to an object store"},
      {.dest = "log", .spellings = {"--log"}, .metavar = "PATH", .help = "its log file"},
  };
  return kFlags;
}

int RunKeeperCommand(Invocation& invocation) {
  const auto text = [&invocation](std::string_view dest) {
    const Given* given = invocation.line.Find(dest);
    return given == nullptr ? std::string() : given->value;
  };
  agent::PrivateKeeperOptions options{text("socket"), text("job"), text("python"), text("tier")};
  options.storage_wait = ParseDuration(invocation.settings.Get("timers.storage_wait").text)
                             .value_or(options.storage_wait);
  if (options.socket.empty() || options.job_id.empty()) {
    return invocation.out.Fail({.code = "PL-E002",
                                .what = "the keeper lacks a flag",
                                .where = "the command line",
                                .why = "it needs --socket and --job-id",
                                .fix = "paceline.torch.Checkpointer starts it with both"});
  }
  if (const std::string log = text("log"); !log.empty()) LogToFile(log).IgnoreError();
  const absl::StatusOr<int> code = agent::RunPrivateKeeper(options);
  // Another one was faster: whoever wanted one has it.
  if (absl::IsAlreadyExists(code.status())) return 0;
  if (code.ok()) return *code;
  return invocation.out.Fail(ProblemFrom(code.status()));
}

}  // namespace paceline::cli
