#pragma once

// Everything an agent knows before its loop begins: read from the run directory and the host.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/agent_files.h"
#include "paceline/agent/event_loop.h"
#include "paceline/agent/hang/evidence_desk.h"
#include "paceline/agent/leases/lease_relay.h"
#include "paceline/agent/memory/checkpoint_station.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/ranks/starter_key.h"
#include "paceline/base/fd.h"
#include "paceline/model/node.h"
#include "paceline/wire/client/agent_stream.h"
#include "paceline/wire/codec/spec_file.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/relay.h"

namespace paceline::agent {

struct AgentSetup {
  Fd lock;  // that this is the node's only agent on this host
  AgentFiles files;
  std::string runtime_dir;
  wire::SpecFile spec;
  Environment base_env;  // this process's, with LaunchSpec::env over it
  wire::Credentials credentials;
  std::string master_address;       // host:port
  std::vector<std::string> relays;  // on the way to the master; none on the master's own host
  std::string relay_listen;         // this agent is a relay at that address; "": it is none
  uint64_t incarnation = 0;
  NodeReport identity;                // what does not change while this agent lives
  uint32_t former_restart_count = 0;  // of the world that a former agent of this boot carried out
};

// kAlreadyExists with PL-E028, before anything of the node is changed: it has an agent that lives.
absl::StatusOr<AgentSetup> PrepareAgent(const AgentOptions& options);

// The relay of an agent that is one, else null. One that cannot listen is logged and left out: the
// other hosts then take another way, and this host's ranks are not its business.
std::unique_ptr<wire::Relay> StartRelay(const AgentSetup& setup);

// Whoever leases data on this node talks to it. Null when it cannot listen: logged, and left out.
std::unique_ptr<LeaseRelay> StartLeases(const AgentSetup& setup);
// Where the master leases that told this port; "" for 0.
std::string LeaseAddress(const AgentSetup& setup, uint32_t port);

// SIGTERM and SIGINT are read from a descriptor, SIGPIPE and SIGHUP are ignored: a terminal that
// goes away is nobody's wish to stop.
void BlockAgentSignals();
Fd OpenAgentSignals();

// Where its starter lives. A salt makes it another one than that of other nodes of this host.
StarterPlace StarterPlaceOf(const AgentSetup& setup, const std::string& salt);

CheckpointStation::Setup StationSetupOf(const AgentSetup& setup);

EvidenceDesk::Setup EvidenceSetupOf(const AgentSetup& setup);

// How this agent reaches its master.
wire::AgentStreamOptions StreamOptionsOf(const AgentSetup& setup);

// Whose progress page this agent keeps; as if it was made now.
PageIdentity PageIdentityOf(const AgentSetup& setup);

}  // namespace paceline::agent
