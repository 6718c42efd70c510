#pragma once

// Everything an agent knows before its loop begins: read from the run directory and the host.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/agent/agent_files.h"
#include "paceline/agent/event_loop.h"
#include "paceline/agent/page_file.h"
#include "paceline/agent/rank_env.h"
#include "paceline/model/node.h"
#include "paceline/wire/credentials.h"
#include "paceline/wire/spec_file.h"

namespace paceline::agent {

struct AgentSetup {
  AgentFiles files;
  std::string runtime_dir;
  wire::SpecFile spec;
  Environment base_env;  // this process's, with LaunchSpec::env over it
  wire::Credentials credentials;
  std::string master_address;  // host:port
  uint64_t incarnation = 0;
  NodeReport identity;                // what does not change while this agent lives
  uint32_t former_restart_count = 0;  // of the world that a former agent of this boot carried out
};

absl::StatusOr<AgentSetup> PrepareAgent(const AgentOptions& options);

// SIGTERM and SIGINT are read from a descriptor, SIGPIPE and SIGHUP are ignored: a terminal that
// goes away is nobody's wish to stop.
void BlockAgentSignals();

// Whose progress page this agent keeps; as if it was made now.
PageIdentity PageIdentityOf(const AgentSetup& setup);

}  // namespace paceline::agent
