#pragma once

// The keeper for ranks that paceline did not start: a single process, or all ranks of torchrun or
// another launcher on this host. It has a station for them and the ledger that a master would have.
// It starts with the first rank, outlives all ranks, and writes their newest step to storage. It
// ends some time after their launcher, if no process comes back.

#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

struct PrivateKeeperOptions {
  std::string socket;  // its folder exists and is only the user's
  std::string job_id;  // equal for all runs that save to one directory
  std::string python;  // the process's interpreter
  std::string tier;    // folder on a local disk for an object store's files; "": none
  // How long a closing process waits for storage that refuses its last step.
  Duration storage_wait = Duration::Seconds(600);
};

// Blocks; returns 0 when the keeper ends by itself. ALREADY_EXISTS: that job has another living
// keeper.
absl::StatusOr<int> RunPrivateKeeper(const PrivateKeeperOptions& options);

}  // namespace paceline::agent
