#pragma once

// The environment of one task: TensorFlow's TF_CONFIG or the sockets of the table servers, and
// ours. It has none of the variables of a world.

#include <string>
#include <string_view>
#include <vector>

#include "paceline/agent/ranks/rank_env.h"

namespace paceline::agent {

// The value of TF_CONFIG: the addresses of all tasks by kind, and which of them this one is. An
// evaluator is not in the cluster, as TensorFlow wants it.
std::string TfConfig(const std::vector<Task>& cluster, Rank rank);

// Where workers of this host find a table server. `beside`: the agent's socket for leases.
std::string TableSocket(std::string_view beside, const std::string& run_dir, uint32_t server);

// The arguments with which this program is a table server. `place` is that of the server's task.
std::vector<std::string> TableServerCommand(const RankPlace& place);

Environment TaskEnvironment(const RankPlace& place, const Environment& base);

}  // namespace paceline::agent
