#pragma once

// Makes this host ready to start processes for a checked request: decides which host runs the
// master, writes the run directory, and makes or reads the credentials.

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
  // If this process chose the port: keeps it for this job's masters as long as this process lives.
  std::optional<agent::StorePort> port;
  Fd port_turn;              // held until the master serves: see port_turn.h
  bool is_whole_job = true;  // no other host takes part
  bool is_resumed = false;
  // On a resumed host that had joined: how the job had ended before; none: this host did not hear.
  std::optional<JobEnd> former_end;
  std::string join_string;  // for the other hosts, if this host made the job
};

struct RunInput {
  RunRequest request;
  std::vector<std::string> args;  // as typed, for job.json
  const Environment& environment;
  const HostFacts& facts;
  void (*wait_note)(const std::string& text);  // called once if this host has to wait for a master
};

Result<PreparedRun> PrepareRun(RunInput input);

}  // namespace paceline::cli
