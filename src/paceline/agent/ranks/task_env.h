#pragma once

// The environment of one task: TensorFlow's TF_CONFIG, and ours. It has none of the variables of a
// world.

#include <string>

#include "paceline/agent/ranks/rank_env.h"

namespace paceline::agent {

// The value of TF_CONFIG: the addresses of all tasks by kind, and which of them this one is. An
// evaluator is not in the cluster, as TensorFlow wants it.
std::string TfConfig(const std::vector<Task>& cluster, Rank rank);

Environment TaskEnvironment(const RankPlace& place, const Environment& base);

}  // namespace paceline::agent
