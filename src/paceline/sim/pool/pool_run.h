#pragma once

// Traces of several seeds under several policies, and what came out of each.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/sim/pool/pool_world.h"

namespace paceline::sim {

// Mean, smallest and largest value over the seeds.
struct PoolFigure {
  double mean = 0;
  double least = 0;
  double most = 0;
};

struct PoolResult {
  std::string_view policy;
  std::vector<PoolOutcome> outcomes;  // by seed

  PoolFigure Over(double (*value)(const PoolOutcome&)) const;
};

// A published average of a production cluster.
struct PoolPublished {
  std::string_view policy;
  double cpu_utilization;
  double completion;
  double job_time;  // as a part of that of static
};
inline constexpr PoolPublished kPoolPublished[] = {{"static", 0.20, 0.89, 1.0},
                                                   {"dlrover", 0.40, 0.95, 0.69}};

std::vector<PoolResult> RunPools(const std::vector<PoolTrace>& traces,
                                 const std::vector<const PoolPolicyEntry*>& policies);

// The mean job time of `one` as a part of that of `base`, seed by seed.
PoolFigure JobTimeRatio(const PoolResult& one, const PoolResult& base);

}  // namespace paceline::sim
