#pragma once

// Leases data to ranks that another launcher started on one host. This process does the work of
// master and agent, and ends with the launcher.

#include <string>

#include "absl/status/statusor.h"
#include "paceline/agent/ranks/pids.h"

namespace paceline::cli {

struct LeaseKeeperOptions {
  std::string socket;  // where ranks connect; its folder exists and only this user may enter it
  std::string job_id;  // in the names of positions
  std::string folder;  // for its journal, in the form of a run directory; created if needed
  agent::ProcessId launcher;
};

// Serves the ranks until the launcher has ended, and then returns 0. ALREADY_EXISTS: another
// process serves that socket.
absl::StatusOr<int> RunLeaseKeeper(const LeaseKeeperOptions& options);

}  // namespace paceline::cli
