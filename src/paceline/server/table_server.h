#pragma once

// One table server: rows in memory, workers of this host on a Unix socket, snapshots in a
// directory. One thread.
//
//   start:  the newest whole snapshot of the directory → the ledger frees the batches that it lacks
//           → listen
//   work:   requests, one after the other; a fork of this process writes a snapshot now and then
//   end:    SIGTERM → a last snapshot → exit code 0
//
// A killed server is started again by the job and begins at the top. Workers repeat what was not
// answered.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace paceline::server {

struct TableServerOptions {
  std::string socket;     // where workers find it
  std::string directory;  // of the job's tables
  std::string job_id;
  uint32_t server = 0;       // its number
  uint32_t servers = 1;      // of the job
  uint64_t generation = 0;   // of its task: higher in each new process
  uint64_t restarts = 0;     // of its task
  std::string lease_socket;  // of the agent; "": nothing is leased
  // The job's servers are on several hosts, so the directory must be one that all of them see.
  bool is_shared = false;
};

// Serves until SIGTERM or SIGINT; the exit code. FAILED_PRECONDITION, INTERNAL: it cannot serve.
// NOT_FOUND: the directory is not the one of the job's first host.
absl::StatusOr<int> RunTableServer(const TableServerOptions& options);

}  // namespace paceline::server
