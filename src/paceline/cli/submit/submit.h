#pragma once

// `paceline submit --on PLATFORM`: jobs that a cluster runs. To add a platform: a file
// submit/<name>.cc and a row in submit/platforms.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/console/output.h"

namespace paceline::cli {

// Where a job is or shall be: "kubernetes/NAMESPACE/NAME". A part that was left out is "".
struct OnPlace {
  std::string platform;
  std::string space;  // Kubernetes: the namespace
  std::string job;
};

// What was typed, checked as far as it is the same on every platform.
struct Submission {
  OnPlace place;  // its job has a name
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;
  uint32_t spares = 0;
  std::optional<uint32_t> nproc_per_node;  // unset: the node's GPUs, else 1
  std::string image;
  std::string template_path;  // "": none
  uint32_t gpus = 0;
  std::string cpus;  // "": as the platform does by itself
  std::string memory;
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<uint32_t> ttl_seconds;
  std::string target;  // a script, or a module
  bool is_module = false;
  std::vector<std::string> args;
  bool only_prints = false;
};

struct Platform {
  std::string_view name;
  // Submits the job, or prints what would be submitted. The exit code.
  int (*submit)(const Submission& submission, const Environment& environment, Output& out);
  // Runs `paceline WORDS` where the job's master is, as if it was typed there. The exit code.
  int (*run_on)(const OnPlace& place, const std::vector<std::string>& words,
                const Environment& environment, Output& out);
};

std::span<const Platform> Platforms();

// "kubernetes", "kubernetes/NAMESPACE", and with `has_job` a job's name in the end. PL-E003.
Result<OnPlace> ParseOnPlace(const std::string& text, bool has_job);
const Platform* FindPlatform(std::string_view name);

int SubmitToKubernetes(const Submission& submission, const Environment& environment, Output& out);
int RunOnKubernetes(const OnPlace& place, const std::vector<std::string>& words,
                    const Environment& environment, Output& out);

}  // namespace paceline::cli
