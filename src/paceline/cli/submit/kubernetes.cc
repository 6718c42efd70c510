#include "paceline/cli/submit/kubernetes.h"

#include <algorithm>
#include <cstdio>

#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/submit/kubectl.h"
#include "paceline/cli/submit/template.h"
#include "paceline/cli/submit/yaml.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

// kubectl parses the YAML, so that paceline needs no parser. With --local, an empty patch needs no
// cluster.
Result<Json> ReadTemplate(const Submission& submission, const Environment& environment) {
  if (submission.template_path.empty()) return Json();
  auto read = RunTool({"kubectl", "patch", "--local", "--type=merge", "--patch={}", "--output",
                       "json", "--filename", submission.template_path},
                      "", environment);
  if (!read.ok()) return read.problem();
  if (read->exit_code != 0) return BadTemplate(submission, WordsOf(*read));
  return ParseOrderedJson(read->out);
}

// Returns the container that runs the script, or null if several could be it.
Json* TrainContainer(Json* spec) {
  Json& containers = (*spec)["containers"];
  for (Json& container : containers) {
    if (JsonText(container, "name") == kTrainContainer) return &container;
  }
  if (containers.size() != 1) return nullptr;
  containers[0]["name"] = kTrainContainer;
  return &containers[0];
}

void SetResources(const Submission& submission, Json* container) {
  Json limits = Json::object();
  if (submission.gpus > 0) limits["nvidia.com/gpu"] = std::to_string(submission.gpus);
  if (!submission.cpus.empty()) limits["cpu"] = submission.cpus;
  if (!submission.memory.empty()) limits["memory"] = submission.memory;
  for (const auto& [name, amount] : limits.items()) {
    (*container)["resources"]["requests"][name] = amount;
    (*container)["resources"]["limits"][name] = amount;
  }
}

void SetEnvironment(const Submission& submission, Json* container) {
  for (const auto& [name, value] : submission.environment) {
    Json& env = (*container)["env"];
    if (!env.is_array()) env = Json::array();
    const auto found = std::find_if(env.begin(), env.end(), [&name = name](const Json& entry) {
      return JsonText(entry, "name") == name;
    });
    const Json entry = {{"name", name}, {"value", value}};
    if (found == env.end()) {
      env.push_back(entry);
    } else {
      *found = entry;
    }
  }
}

}  // namespace

Result<Json> ElasticJobOf(const Submission& submission, const Json& pod) {
  Result<Json> found = PodTemplateOf(submission, pod);
  if (!found.ok()) return found.problem();
  Json* container = TrainContainer(&(*found)["spec"]);
  if (container == nullptr) {
    return BadTemplate(submission, "it has several containers, and none is named train");
  }
  if (!submission.image.empty()) (*container)["image"] = submission.image;
  if (JsonText(*container, "image").empty()) {
    return Problem{.code = "PL-E003",
                   .what = "the job has no image",
                   .where = "the command line",
                   .why = "neither --image nor the template names one",
                   .fix = "--image REGISTRY/NAME:TAG, which has Python, the script and paceline"};
  }
  SetResources(submission, container);
  SetEnvironment(submission, container);
  Json spec;
  spec["nodes"] = {{"min", submission.nodes_min}, {"max", submission.nodes_max}};
  if (submission.spares > 0) spec["spares"] = submission.spares;
  if (submission.nproc_per_node.has_value()) spec["nprocPerNode"] = *submission.nproc_per_node;
  spec["script"][submission.is_module ? "module" : "file"] = submission.target;
  if (!submission.args.empty()) spec["script"]["args"] = submission.args;
  if (!submission.run_flags.empty()) spec["flags"] = submission.run_flags;
  if (submission.ttl_seconds.has_value()) {
    spec["ttlSecondsAfterFinished"] = *submission.ttl_seconds;
  }
  spec["template"] = *std::move(found);
  Json job = {{"apiVersion", "paceline.dev/v1alpha1"}, {"kind", "ElasticJob"}};
  job["metadata"]["name"] = submission.place.job;
  if (!submission.place.space.empty()) job["metadata"]["namespace"] = submission.place.space;
  job["spec"] = std::move(spec);
  return job;
}

int SubmitToKubernetes(const Submission& submission, const Environment& environment, Output& out) {
  Result<Json> pod = ReadTemplate(submission, environment);
  if (!pod.ok()) return out.Fail(pod.problem());
  Result<Json> job = ElasticJobOf(submission, *pod);
  if (!job.ok()) return out.Fail(job.problem());
  if (submission.only_prints) {
    out.Data(out.is_json() ? PrintJson(*job, {.indent = 2}) + "\n" : ToYaml(*job));
    return kExitDone;
  }
  // `create` and not `apply`, because a running job may have that name.
  auto made = RunTool({"kubectl", "create", "--filename", "-"}, PrintJson(*job), environment);
  if (!made.ok()) return out.Fail(made.problem());
  if (made->exit_code != 0) {
    return out.Fail(Refused("the job was not submitted", submission.place, *made));
  }
  const std::string place = OnPlaceText(submission.place);
  out.DataLine(place);
  const std::string& space = submission.place.space;
  out.Say(Concat("kubectl get elasticjob ", submission.place.job,
                 space.empty() ? "" : " --namespace " + space, " --watch   shows its nodes\n",
                 "paceline why --on ", place, "   says what happened last"));
  return kExitDone;
}

}  // namespace paceline::cli
