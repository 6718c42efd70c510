#pragma once

// Which process of a job that runs a drill strikes, from the job's status. Pure.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/cli/console/error.h"
#include "paceline/cli/drill/kinds.h"
#include "paceline/model/drill.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

// A kind that is no more than signals to processes of this host.
struct LiveKind {
  std::string_view name;
  DrillLoss loss = DrillLoss::kRank;
};

// Null for a kind that a live job cannot have.
const LiveKind* FindLiveKind(std::string_view name);
// "sigkill, sigstop, agent_kill, node_kill".
std::string LiveKindNames();

struct LiveWish {
  std::optional<uint32_t> rank;  // none: the highest of this host
  std::string node;              // "": any of this host
};

struct LiveTarget {
  std::string node;
  int32_t agent_pid = 0;
  std::optional<uint32_t> rank;    // only of kinds that strike one rank
  std::vector<int32_t> rank_pids;  // the ranks that are struck: one, or all of the node
};

// `here`: names of the nodes whose agents live on this host. PL-E169 if none of them has what the
// wish names.
Result<LiveTarget> ChooseTarget(const wire::JobStatus& status, const std::set<std::string>& here,
                                const LiveKind& kind, const LiveWish& wish);

// "rank 3 on node1 (process 4242)", "node1: its agent (process 4200) and 2 ranks".
std::string TargetText(const LiveTarget& target, DrillLoss loss);

}  // namespace paceline::cli
