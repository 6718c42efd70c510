#pragma once

// The names of the nodes that one `paceline run` starts on its host.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "paceline/cli/job/run_dir.h"

namespace paceline::cli {

// "node0", "node1" without a name; else the name, with a number behind it if there are several.
std::vector<std::string> NodesNamed(const std::string& name, uint32_t count);

// The name of the host, or, where a living `paceline run` of the same job has taken it, one like
// it: the same command typed twice on one host makes two nodes.
std::string FreeNodeName(const std::string& host_name, uint32_t count,
                         const std::vector<std::pair<std::string, JobCard>>& registered);

}  // namespace paceline::cli
