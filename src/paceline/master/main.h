#pragma once

// The master process: `paceline master --run-dir DIR --listen HOST:PORT`.

#include <string>

#include "absl/status/status.h"
#include "paceline/master/page/page_maker.h"

namespace paceline::master {

struct MasterOptions {
  std::string run_dir;
  // HOST:PORT. Port 0: the port of an earlier master of this run directory, else a free one.
  std::string listen = {};  // "": port 0 of the loopback address
  bool insecure = false;    // allows a non-loopback address without TLS
  bool resumes = false;     // a user started the job again; see core::MasterStarted
  // Set by the platform that starts the job's masters; see EventLoop::Term.
  uint64_t term = 0;
  uint32_t survivors = 0;
  std::string memo;
  PageMaker page = {};  // of the job's page
  int ready_fd = -1;    // gets one byte and is closed when the master serves; -1: none
};

// Serves until the job has ended. Returns OK then, whatever the job's exit code is. Reads token,
// spec.json and tls/ of the run directory, owns journal.db, and writes its address to job.json. An
// error has a Problem (model/problem.h), and the job is unchanged then.
absl::Status RunMaster(MasterOptions options);

// True if `listen` (HOST:PORT) is reachable from this host only.
bool IsLoopback(const std::string& listen);

}  // namespace paceline::master
