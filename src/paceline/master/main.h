#pragma once

// The master process: `paceline master --run-dir DIR --listen HOST:PORT`.

#include <string>

#include "absl/status/status.h"

namespace paceline::master {

struct MasterOptions {
  std::string run_dir;
  // HOST:PORT. Port 0: the port that an earlier master of this run directory had, else a free one.
  std::string listen = "127.0.0.1:0";
  bool insecure = false;  // a non-loopback address without TLS, on purpose
  bool resumes = false;   // a user started the job again; see core::MasterStarted
  int ready_fd = -1;      // gets one byte and is closed when it serves; -1: none
};

// Serves until the job has ended; OK then, whatever the job's own exit code is. Reads token,
// spec.json and tls/ of the run directory, holds journal.db, and says in job.json where it is. An
// error carries its Problem (model/problem.h), and nothing of the job was touched.
absl::Status RunMaster(const MasterOptions& options);

// Whether `listen` (HOST:PORT) is reachable from this host only.
bool IsLoopback(const std::string& listen);

}  // namespace paceline::master
