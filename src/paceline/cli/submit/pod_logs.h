#pragma once

// `paceline logs --on kubernetes/…`: what the ranks of a job printed, from the logs of its pods.

#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/command.h"
#include "paceline/cli/submit/elastic_job.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {

int ShowPodLogs(const OnPlace& place, const ElasticJobSeen& job, Invocation& invocation);

// The newest `lines_max` lines of a pod's log; of that rank alone if `rank` is not negative. Each
// line of a rank begins with "NODE:RANK|".
std::vector<std::string_view> LinesOfRank(std::string_view log, int64_t rank, size_t lines_max);

struct NodePodName {
  std::string pod;
  uint32_t index = 0;
  uint32_t incarnation = 0;
};

// The pods of nodes, in the order of the nodes and incarnations.
std::vector<NodePodName> NodePodsIn(const nlohmann::json& pods, const std::string& job);

// The newest pod of each node that has existed and is not in the list.
std::vector<std::string> GonePods(const ElasticJobSeen& job, const std::vector<NodePodName>& pods,
                                  const std::string& name);

}  // namespace paceline::cli
