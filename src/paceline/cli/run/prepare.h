#pragma once

// From a checked request to a host that is ready to start processes: who runs the master, the run
// directory with all its files, and the proof of identity for the wire.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/agent/ranks/store_port.h"
#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/request.h"
#include "paceline/model/job_spec.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::cli {

struct PreparedRun {
  RunDir dir;
  std::string runtime_dir;
  JobCard card;
  JobSpec spec;
  LaunchSpec launch;
  wire::Credentials credentials;
  std::string listen;  // of the master when it runs here
  // Keeps that port for this job's masters when it was chosen here, as long as this process lives.
  std::optional<agent::StorePort> port;
  bool is_whole_job = true;  // no other host takes part
  bool is_resumed = false;
  std::string join_string;  // for the other hosts, when this one made the job
};

struct RunInput {
  RunRequest request;
  std::vector<std::string> args;  // as typed, for job.json
  const Environment& environment;
  const HostFacts& facts;
  void (*wait_note)(const std::string& text);  // told once when a master must be waited for
};

Result<PreparedRun> PrepareRun(RunInput input);

}  // namespace paceline::cli
