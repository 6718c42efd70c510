// `paceline server`: one of a job's table servers. Its agent starts it.

#include <string>

#include "paceline/cli/command.h"
#include "paceline/server/table_server.h"

namespace paceline::cli {

FlagTable ServerFlags() {
  static constexpr Flag kFlags[] = {
      {.dest = "socket",
       .spellings = {"--socket"},
       .metavar = "PATH",
       .help = "where workers find it"},
      {.dest = "dir",
       .spellings = {"--dir"},
       .metavar = "DIR",
       .help = "where the snapshots of the job's tables are"},
      {.dest = "job", .spellings = {"--job-id"}, .metavar = "ID", .help = "the job's id"},
      {.dest = "number",
       .spellings = {"--number"},
       .kind = FlagKind::kInteger,
       .metavar = "N",
       .help = "which of the servers this is, from 0",
       .minimum = 0,
       .maximum = 4095},
      {.dest = "servers",
       .spellings = {"--servers"},
       .kind = FlagKind::kInteger,
       .metavar = "N",
       .help = "how many servers the job has",
       .minimum = 1,
       .maximum = 4096},
      {.dest = "generation",
       .spellings = {"--generation"},
       .kind = FlagKind::kInteger,
       .metavar = "N",
       .help = "higher in each new process of this server",
       .minimum = 0,
       .maximum = INT64_MAX},
      {.dest = "restarts",
       .spellings = {"--restarts"},
       .kind = FlagKind::kInteger,
       .metavar = "N",
       .help = "how often this server was started again",
       .minimum = 0,
       .maximum = INT64_MAX},
      {.dest = "shared",
       .spellings = {"--shared"},
       .kind = FlagKind::kSwitch,
       .help = "the job's servers are on several hosts"},
  };
  return kFlags;
}

namespace {

Problem ProblemOf(const absl::Status& status, const server::TableServerOptions& options) {
  if (absl::IsDataLoss(status)) {
    return {.code = "PL-E207",
            .what = "the tables lack updates that the data set's ledger has counted",
            .where = "table server ps-" + std::to_string(options.server) + ", " + options.directory,
            .why = std::string(status.message()),
            .fix = "paceline run --resume RUN_DIR: the workers then read these samples again"};
  }
  if (absl::IsNotFound(status)) {
    return {.code = "PL-E206",
            .what = "the table server does not see the directory of the job's tables",
            .where = "table server ps-" + std::to_string(options.server) + ", " + options.directory,
            .why = std::string(status.message()),
            .fix = "make --tables a directory that all hosts of the job share under this path"};
  }
  if (absl::IsOutOfRange(status)) {
    return {.code = "PL-E212",
            .what = "the directory has only a part of an earlier run's tables",
            .where = "table server ps-" + std::to_string(options.server) + ", " + options.directory,
            .why = std::string(status.message()),
            .fix =
                "paceline run --resume RUN_DIR goes on with the job that wrote them, and reads the "
                "lost samples again; or give --tables another directory"};
  }
  if (absl::IsAborted(status)) {
    return {.code = "PL-E302",
            .what = "the table server lacks partitions",
            .where = "table server ps-" + std::to_string(options.server),
            .why = std::string(status.message()),
            .fix = "nothing to do: its next process loads them from the newest snapshot"};
  }
  return {.code = "PL-E208",
          .what = "the table server cannot go on",
          .where = "table server ps-" + std::to_string(options.server) + ", " + options.directory,
          .why = std::string(status.message()),
          .fix = "make --tables a directory that this host can write, with room for two snapshots"};
}

}  // namespace

int RunServerCommand(Invocation& invocation) {
  const ParsedLine& line = invocation.line;
  const server::TableServerOptions options{
      .socket = line.Text("socket"),
      .directory = line.Text("dir"),
      .job_id = line.Text("job"),
      .server = static_cast<uint32_t>(line.Number("number", 0)),
      .servers = static_cast<uint32_t>(line.Number("servers", 1)),
      .generation = static_cast<uint64_t>(line.Number("generation", 0)),
      .restarts = static_cast<uint64_t>(line.Number("restarts", 0)),
      .lease_socket = LookupOr(invocation.environment, "PACELINE_LEASE_SOCKET", ""),
      .is_shared = line.Has("shared")};
  if (options.socket.empty() || options.directory.empty() || options.job_id.empty()) {
    return invocation.out.Fail({.code = "PL-E002",
                                .what = "the table server lacks a flag",
                                .where = "the command line",
                                .why = "it needs --socket, --dir and --job-id",
                                .fix = "paceline run --tables starts servers with all of them"});
  }
  const absl::StatusOr<int> code = server::RunTableServer(options);
  if (code.ok()) return *code;
  return invocation.out.Fail(ProblemOf(code.status(), options));
}

}  // namespace paceline::cli
