#pragma once

// `paceline submit --on PLATFORM`: jobs that a cluster runs. To add a platform: a file
// submit/<name>.cc and a row in submit/platforms.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/console/output.h"

namespace paceline::cli {

struct Invocation;

// Where a job runs or will run: "kubernetes/NAMESPACE/NAME". Omitted parts are "".
struct OnPlace {
  std::string platform;
  std::string space;  // Kubernetes: the namespace
  std::string job;
};

// The submission, after the checks that are the same for every platform.
struct Submission {
  OnPlace place;  // its job has a name
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;
  uint32_t spares = 0;
  std::optional<uint32_t> nproc_per_node;  // unset: the node's GPUs, else 1
  std::string image;
  std::string template_path;  // "": none
  uint32_t gpus = 0;
  std::string cpus;  // "": the platform's default
  std::string memory;
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<uint32_t> ttl_seconds;
  std::string target;  // a script, or a module
  bool is_module = false;
  std::vector<std::string> args;
  std::vector<std::string> run_flags;  // more flags of paceline run, as words
  std::string ray_address;             // "": RAY_ADDRESS, or the cluster of this host
  std::string working_dir;             // Ray: brought to each node; "": the nodes have the script
  bool only_prints = false;
};

struct Platform {
  std::string_view name;
  // Submits the job, or prints what would be submitted. Returns the exit code.
  int (*submit)(const Submission& submission, const Environment& environment, Output& out);
  // The command for a job of the cluster; `words` are those of `paceline WORDS` where the job's
  // master is. Returns the exit code.
  int (*run_on)(const OnPlace& place, const std::vector<std::string>& words,
                Invocation& invocation);
};

// "kubernetes", "kubernetes/NAMESPACE" or "ray", and with `has_job` a job's name in the end.
// PL-E003.
Result<OnPlace> ParseOnPlace(const std::string& text, bool has_job);
const Platform* FindPlatform(std::string_view name);

int SubmitToKubernetes(const Submission& submission, const Environment& environment, Output& out);
int RunOnKubernetes(const OnPlace& place, const std::vector<std::string>& words,
                    Invocation& invocation);
int SubmitToRay(const Submission& submission, const Environment& environment, Output& out);
int RunOnRay(const OnPlace& place, const std::vector<std::string>& words, Invocation& invocation);

}  // namespace paceline::cli
