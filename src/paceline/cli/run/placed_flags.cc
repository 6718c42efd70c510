#include "paceline/cli/run/placed_flags.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "paceline/base/fd.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

struct OperatorFlag {
  std::string_view dest;
  std::string_view field;  // of the ElasticJob, that says it; "": none does
  bool is_of_nodes = false;
};

constexpr OperatorFlag kOperatorFlags[] = {
    {"credentials", ""},
    {"rdzv_endpoint", ""},
    {"local_nodes", ""},
    {"nnodes", "spec.nodes"},
    {"spares", "spec.spares"},
    {"name", "metadata.name"},
    {"nproc_per_node", "spec.nprocPerNode"},
    {"run_dir", ""},
    {"node_name", "", true},
    {"incarnation", "", true},
};

}  // namespace

Check CheckPlacedFlags(const ParsedLine& line) {
  if (!line.Has("credentials")) return std::nullopt;
  const bool is_master = line.Number("local_nodes", 1) == 0;
  for (const OperatorFlag& flag : kOperatorFlags) {
    const auto count = std::count_if(line.given.begin(), line.given.end(), [&](const Given& given) {
      return given.flag->dest == flag.dest;
    });
    if (count <= (flag.is_of_nodes && is_master ? 0 : 1)) continue;
    const Given& last = *line.Find(flag.dest);
    return Problem{.code = "PL-E005",
                   .what = Concat(last.flag->spellings[0], " ", Visible(last.value),
                                  " is given beside the Kubernetes operator's flags"),
                   .where = "spec.flags of the ElasticJob",
                   .why = Concat("the operator sets ", last.flag->spellings[0], " in each pod"),
                   .fix = flag.field.empty()
                              ? Concat("leave ", last.flag->spellings[0], " out of spec.flags")
                              : Concat("leave it out of spec.flags; ", flag.field, " says it")};
  }
  return std::nullopt;
}

int RefuseStart(Output& out, const Environment& environment, const Problem& problem) {
  const int code = out.Fail(problem);
  // Only the operator's master has a term. A problem of another kind may be gone the next time.
  if (code == kExitUsage && environment.contains("PACELINE_MASTER_TERM")) {
    TellPlatform(code, Concat(problem.what, ": ", problem.why, "; ", problem.fix));
  }
  return code;
}

void TellPlatform(int exit_code, const std::string& reason) {
  const Fd file(::open("/dev/termination-log", O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.is_open()) return;
  const std::string line =
      PrintJson(nlohmann::json{{"exit_code", exit_code}, {"reason", reason}}) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(file.get(), line.data(), line.size());
}

}  // namespace paceline::cli
