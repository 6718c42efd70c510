// `paceline agent`: one node's agent. `paceline run` starts it.

#include <string>

#include "paceline/agent/agent_files.h"
#include "paceline/agent/event_loop.h"
#include "paceline/base/file_text.h"
#include "paceline/cli/command.h"

namespace paceline::cli {

FlagTable AgentFlags() {
  static constexpr Flag kFlags[] = {
      {.dest = "run_dir",
       .spellings = {"--run-dir"},
       .metavar = "DIR",
       .help = "the job's run directory on this host"},
      {.dest = "node",
       .spellings = {"--node"},
       .metavar = "NAME",
       .help = "the node's name, unique in the job"},
      {.dest = "incarnation",
       .spellings = {"--incarnation"},
       .metavar = "N",
       .help = "which of the nodes that had this name, one after the other"},
      {.dest = "runtime_dir",
       .spellings = {"--runtime-dir"},
       .metavar = "DIR",
       .help = "where starters live"},
  };
  return kFlags;
}

int RunAgentCommand(Invocation& invocation) {
  const ParsedLine& line = invocation.line;
  const agent::AgentOptions options{
      .run_dir = line.Text("run_dir"),
      .node = line.Text("node"),
      .runtime_dir = line.Text("runtime_dir"),
      .incarnation = static_cast<uint32_t>(line.Number("incarnation", 0))};
  for (const std::string& value : {options.run_dir, options.node, options.runtime_dir}) {
    if (!value.empty()) continue;
    return invocation.out.Fail({.code = "PL-E002",
                                .what = "the agent lacks a flag",
                                .where = "the command line",
                                .why = "it needs --run-dir, --node and --runtime-dir",
                                .fix = "paceline run starts agents with all of them"});
  }
  const absl::StatusOr<int> code = agent::RunAgent(options);
  if (code.ok()) return *code;
  const Problem problem = ProblemFrom(code.status());
  // Leaves the files of the living agent alone.
  if (absl::IsAlreadyExists(code.status())) return invocation.out.Fail(problem);
  const agent::AgentFiles files{options.run_dir, options.node};
  // Writes the error to a file for the launcher to show, because this process has no console.
  ReplaceFile(files.ProblemJson(), RenderProblemJson(problem), 0600).IgnoreError();
  return invocation.out.Fail(problem);
}

}  // namespace paceline::cli
