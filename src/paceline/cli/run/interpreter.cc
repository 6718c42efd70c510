#include "paceline/cli/run/interpreter.h"

#include <sys/wait.h>

#include <vector>

#include "paceline/base/spawn.h"
#include "paceline/base/text.h"

namespace paceline::cli {

Result<std::string> FindInterpreter(const Environment& environment, const SettingValues& settings,
                                    const HostFacts& facts) {
  std::string wanted = settings.Text("launch.python");
  std::string origin = settings.Get("launch.python").origin;
  if (wanted.empty()) {
    wanted = LookupOr(environment, "PYTHON_EXEC", "");
    origin = "PYTHON_EXEC";
  }
  std::vector<std::string> candidates{wanted};
  if (wanted.empty()) {
    candidates = {facts.binary_dir + "/python", facts.binary_dir + "/python3", "python3", "python"};
  }
  for (const std::string& candidate : candidates) {
    const std::string found = FindProgram(environment, candidate);
    if (!found.empty()) return found.starts_with("/") ? found : Concat(facts.cwd, "/", found);
  }
  return Problem{.code = "PL-E009",
                 .what = "there is no Python interpreter to run the script",
                 .where = wanted.empty() ? "PATH" : origin,
                 .why = wanted.empty() ? "no python3 is beside paceline or in PATH"
                                       : wanted + " is not an executable file",
                 .fix = "activate your virtual environment, or set launch.python"};
}

bool HasModule(const std::string& python, const std::string& module) {
  const std::string script = Concat(
      "import importlib.util,sys;sys.exit(0 if importlib.util.find_spec('", module, "') else 1)");
  auto child = SpawnDetached({.argv = {python, "-P", "-c", script}, .env = CurrentEnvironment()});
  if (!child.ok()) return false;
  int status = 0;
  return ::waitpid(child->pid, &status, 0) == child->pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

Check CheckInterpreter(const std::string& python, const HostFacts& facts) {
  const bool is_ours = python.substr(0, python.rfind('/')) == facts.binary_dir;
  if (is_ours || HasModule(python, "paceline")) return std::nullopt;
  return Problem{.code = "PL-E009",
                 .what = "the Python interpreter lacks the paceline package",
                 .where = python,
                 .why = "the starter and the rank bootstrap are Python modules",
                 .fix = "run the paceline of the environment that has it, or set launch.python"};
}

}  // namespace paceline::cli
