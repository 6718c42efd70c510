// `paceline profile`: what the devices of this machine and the links between them reach. The
// package measures (python/paceline/parallel/profile.py), in processes of its own.

#include <string>
#include <vector>

#include "paceline/cli/command.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/plan/inputs.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"

namespace paceline::cli {
namespace {

constexpr Flag kProfileFlags[] = {
    {.dest = "processes",
     .spellings = {"--processes"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "processes that measure together: one for each device, or 2 on CPUs"},
};

}  // namespace

FlagTable ProfileFlags() { return kProfileFlags; }

int RunProfile(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  if (!words.empty()) {
    const auto missing = ScriptIsThere(words.front(), "paceline profile train.py");
    if (missing) return out.Fail(*missing);
  }
  auto python = FindInterpreter(invocation.environment, invocation.settings,
                                ReadHostFacts(invocation.environment));
  if (!python.ok()) return out.Fail(python.problem());
  std::vector<std::string> argv = {*python, "-m", "paceline.parallel.profile"};
  if (const Given* processes = invocation.line.Find("processes")) {
    argv.insert(argv.end(), {"--processes", processes->value});
  }
  if (out.is_json()) argv.push_back("--json");
  if (!words.empty()) {
    argv.push_back("--");
    argv.insert(argv.end(), words.begin(), words.end());
  }
  return out.Fail(BecomeTool(argv, invocation.environment));
}

}  // namespace paceline::cli
