#pragma once

// The ledger of leased data for ranks that another launcher started on one host: what a master and
// an agent do for the ranks of a job, in one process that ends with the launcher.

#include <string>

#include "absl/status/statusor.h"
#include "paceline/agent/ranks/pids.h"

namespace paceline::cli {

struct LeaseKeeperOptions {
  std::string socket;  // where ranks find it; its folder is there and only the user's
  std::string job_id;  // in the names of positions
  std::string folder;  // of its journal, as a run directory has it; made when needed
  agent::ProcessId launcher;
};

// Blocks; 0 when the launcher has ended. ALREADY_EXISTS: another one serves at that socket.
absl::StatusOr<int> RunLeaseKeeper(const LeaseKeeperOptions& options);

}  // namespace paceline::cli
