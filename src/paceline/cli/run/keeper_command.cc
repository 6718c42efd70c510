// `paceline keeper`: manages the checkpoints of ranks that `paceline run` did not start, or leases
// data to them. paceline.torch.Checkpointer and LeasedLoader start it.

#include <algorithm>
#include <string>
#include <string_view>

#include "paceline/agent/keepers/private_keeper.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/run/lease_keeper.h"
#include "paceline/cli/settings/value.h"

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
      {.dest = "leases",
       .spellings = {"--leases"},
       .metavar = "DIR",
       .help = "lease data, and keep no checkpoints; its journal"},
      {.dest = "launcher",
       .spellings = {"--launcher"},
       .metavar = "PID:START",
       .help = "with --leases: it ends with that process"},
      {.dest = "log", .spellings = {"--log"}, .metavar = "PATH", .help = "its log file"},
  };
  return kFlags;
}

namespace {

// "812:73519": pid and start time in ticks. A text of another form gives a process that does not
// exist.
agent::ProcessId ProcessOf(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view start = text.substr(std::min(colon + 1, text.size()));
  return {.pid = ParseWhole<int32_t>(text.substr(0, colon)).value_or(0),
          .start_time_ticks = ParseWhole<uint64_t>(start).value_or(0)};
}

}  // namespace

int RunKeeperCommand(Invocation& invocation) {
  const ParsedLine& line = invocation.line;
  agent::PrivateKeeperOptions options{line.Text("socket"), line.Text("job"), line.Text("python"),
                                      line.Text("tier")};
  options.storage_wait = ParseDuration(invocation.settings.Get("timers.storage_wait").text)
                             .value_or(options.storage_wait);
  if (options.socket.empty() || options.job_id.empty()) {
    return invocation.out.Fail({.code = "PL-E002",
                                .what = "the keeper lacks a flag",
                                .where = "the command line",
                                .why = "it needs --socket and --job-id",
                                .fix = "paceline.torch.Checkpointer starts it with both"});
  }
  if (const std::string log = line.Text("log"); !log.empty()) LogToFile(log).IgnoreError();
  const absl::StatusOr<int> code =
      line.Text("leases").empty() ? agent::RunPrivateKeeper(options)
                                  : RunLeaseKeeper({.socket = options.socket,
                                                    .job_id = options.job_id,
                                                    .folder = line.Text("leases"),
                                                    .launcher = ProcessOf(line.Text("launcher"))});
  // Another keeper has already started, so the ranks that wanted one have it.
  if (absl::IsAlreadyExists(code.status())) return 0;
  if (code.ok()) return *code;
  return invocation.out.Fail(ProblemFrom(code.status()));
}

}  // namespace paceline::cli
