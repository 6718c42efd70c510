// Jobs on a Ray cluster. Ray has no C++ client that a wheel could carry, so all of it stands in
// python/paceline/integrations/ray, which this command runs in the interpreter beside it.

#include <cstdio>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {
namespace {

Problem OnlyOfKubernetes(std::string_view flag) {
  return {.code = "PL-E005",
          .what = Concat(flag, " and --on ray exclude each other"),
          .where = "the command line",
          .why = "Ray starts processes and no containers; this flag is of Kubernetes",
          .fix = Concat("leave ", flag, " out; --working-dir brings the script to Ray's nodes")};
}

Check CheckForRay(const Submission& submission) {
  if (!submission.image.empty()) return OnlyOfKubernetes("--image");
  if (!submission.template_path.empty()) return OnlyOfKubernetes("--template");
  if (submission.ttl_seconds.has_value()) return OnlyOfKubernetes("--ttl");
  return std::nullopt;
}

nlohmann::json SpecOf(const Submission& submission) {
  nlohmann::json environment = nlohmann::json::object();
  for (const auto& [name, value] : submission.environment) environment[name] = value;
  return {{"name", submission.place.job},
          {"nodes_min", submission.nodes_min},
          {"nodes_max", submission.nodes_max},
          {"spares", submission.spares},
          {"nproc_per_node", submission.nproc_per_node.value_or(0)},
          {"gpus", submission.gpus},
          {"cpus", submission.cpus},
          {"memory", submission.memory},
          {"environment", std::move(environment)},
          {"target", submission.target},
          {"is_module", submission.is_module},
          {"args", submission.args},
          {"run_flags", submission.run_flags},
          {"ray_address", submission.ray_address},
          {"working_dir", submission.working_dir},
          {"only_prints", submission.only_prints}};
}

Result<std::vector<std::string>> Program(const Environment& environment, const std::string& verb) {
  auto python = FindInterpreter(environment, SettingValues{}, ReadHostFacts(environment));
  if (!python.ok()) return python.problem();
  if (!HasModule(*python, "ray")) {
    return Problem{.code = "PL-E045",
                   .what = "Ray is not installed",
                   .where = *python,
                   .why = "jobs on Ray are submitted through Ray's own Python package",
                   .fix = "pip install ray, in the version of the cluster"};
  }
  return std::vector<std::string>{*python, "-m", "paceline.integrations.ray", verb};
}

}  // namespace

int SubmitToRay(const Submission& submission, const Environment& environment, Output& out) {
  if (const Check problem = CheckForRay(submission)) return out.Fail(*problem);
  const auto program = Program(environment, "submit");
  if (!program.ok()) return out.Fail(program.problem());
  const auto told = RunTool(*program, PrintJson(SpecOf(submission)), environment);
  if (!told.ok()) return out.Fail(told.problem());
  out.Data(told->out);
  std::fputs(told->err.c_str(), stderr);
  return told->exit_code;
}

int RunOnRay(const OnPlace& place, const std::vector<std::string>& words, Invocation& invocation) {
  auto program = Program(invocation.environment, "run");
  if (!program.ok()) return invocation.out.Fail(program.problem());
  std::vector<std::string> line = *program;
  line.push_back(place.job);
  line.insert(line.end(), words.begin(), words.end());
  return invocation.out.Fail(BecomeTool(line, invocation.environment));
}

}  // namespace paceline::cli
