#pragma once

// The keeper of ranks that paceline has not started: of a process alone, or of all ranks that
// torchrun or another launcher started on this host. It has a station for them, and the ledger that
// a master would hold. It begins with the first rank, survives all of them, brings their newest
// step to storage, and ends when their launcher has ended and nobody has come back for a while.

#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

struct PrivateKeeperOptions {
  std::string socket;  // where the process finds it; its folder is there and only the user's
  std::string job_id;  // the same for every run that saves to the same directory
  std::string python;  // the interpreter of the process
  std::string tier;    // folder on a local disk for what an object store has; "": none
  // How long a process that closes waits for a storage that refuses its last step.
  Duration storage_wait = Duration::Seconds(600);
};

// Blocks; 0 when it has ended by itself. ALREADY_EXISTS: another keeper of that job lives.
absl::StatusOr<int> RunPrivateKeeper(const PrivateKeeperOptions& options);

}  // namespace paceline::agent
