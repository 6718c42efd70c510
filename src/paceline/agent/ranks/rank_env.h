#pragma once

// The environment of one rank: the variables of torchrun's agent, and ours.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/world.h"

namespace paceline::agent {

using Environment = std::map<std::string, std::string>;

// "NAME=value" texts as a map; the first of equal names wins, as getenv has it.
Environment ToEnvironment(const std::vector<std::string>& entries);

struct RankPlace {
  const JobSpec& job;
  const LaunchSpec& launch;
  const Assignment& assignment;
  std::string node;
  std::string run_dir;
  Rank rank;
  uint32_t local_rank = 0;
  std::string checkpoint_socket = {};
  std::string lease_socket = {};
  std::string gloo_interface = {};  // for gloo, if the user has named none; "": gloo finds one
  std::string ring = {};            // path of the rank's flight ring; "": none
  std::string torch_error_file;     // for scripts that use torch's own @record
};

// The part of the environment that is equal for all ranks of a job. `base` is the agent's
// environment with LaunchSpec::env applied. The starter gets it as well, because variables that
// libraries read at their import cannot be changed in a fork.
Environment JobEnvironment(const LaunchSpec& launch, const Environment& base);

Environment RankEnvironment(const RankPlace& place, const Environment& base);

// As torchrun, replaces $local_rank and ${local_rank} in a worker's arguments; $$ is a dollar sign.
std::string SubstituteLocalRank(std::string_view argument, uint32_t local_rank);

}  // namespace paceline::agent
