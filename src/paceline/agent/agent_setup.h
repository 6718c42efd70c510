#pragma once

// What an agent knows before its loop begins, from the run directory and the host.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/agent_files.h"
#include "paceline/agent/checks/check_runner.h"
#include "paceline/agent/event_loop.h"
#include "paceline/agent/hang/evidence_desk.h"
#include "paceline/agent/leases/lease_relay.h"
#include "paceline/agent/memory/checkpoint_station.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/starter/starter_key.h"
#include "paceline/agent/tables/table_links.h"
#include "paceline/base/fd.h"
#include "paceline/model/ids.h"
#include "paceline/model/node.h"
#include "paceline/wire/client/agent_stream.h"
#include "paceline/wire/codec/spec_file.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/relay.h"

namespace paceline::agent {

struct AgentSetup {
  Fd lock;  // makes it the node's only agent on this host
  AgentFiles files;
  std::string runtime_dir;
  wire::SpecFile spec;
  Environment base_env;  // this process's, overridden by LaunchSpec::env
  wire::Credentials credentials;
  std::string master_address;       // host:port
  std::vector<std::string> relays;  // on the way to the master; empty on the master's own host
  std::string relay_listen;         // this agent's address as a relay; "": it is none
  uint64_t incarnation = 0;
  std::string gloo_interface;         // see ranks/gloo_interface.h
  NodeReport identity;                // does not change while this agent lives
  Generation former_generation;       // of an earlier agent of this boot
  uint64_t former_term = 0;           // the highest of the masters that an earlier agent has met
  uint32_t former_restart_count = 0;  // of the world that an earlier agent of this boot ran
  std::string former_checkpoints;     // directory of the checkpoints, as an earlier agent knew it
};

// kAlreadyExists with PL-E028 if the node has a living agent. Nothing of the node is changed then.
absl::StatusOr<AgentSetup> PrepareAgent(const AgentOptions& options);

// The relay, if this agent is one, else null. A relay that cannot listen is logged and left out:
// other hosts then take another route, and this host's ranks are not affected.
std::unique_ptr<wire::Relay> StartRelay(const AgentSetup& setup);

// The server for lease clients on this node. Null if it cannot listen, which is logged.
std::unique_ptr<LeaseRelay> StartLeases(const AgentSetup& setup);
LinksPlace LinksPlaceOf(const AgentSetup& setup);
// The master's address for leases; "" for port 0.
std::string LeaseAddress(const AgentSetup& setup, uint32_t port);

// SIGTERM and SIGINT are read from a descriptor. SIGPIPE and SIGHUP are ignored: a closed terminal
// is no request to stop.
void BlockAgentSignals();
Fd OpenAgentSignals();

// The place of this agent's starter. A salt makes it private, so other nodes of the host do not use
// it.
StarterPlace StarterPlaceOf(const AgentSetup& setup, const std::string& salt);

CheckpointStation::Setup StationSetupOf(const AgentSetup& setup);

CheckSetup CheckSetupOf(const AgentSetup& setup);

// Whether the job measures its hosts, and tests the links between them.
bool HasHostCheck(const AgentSetup& setup);

EvidenceDesk::Setup EvidenceSetupOf(const AgentSetup& setup);

// How this agent connects to its master.
wire::AgentStreamOptions StreamOptionsOf(const AgentSetup& setup);

// Opens the progress page, in memory. It is in the run directory if there is no room in memory, or
// if an agent of an older version has put it there for ranks that may still live.
absl::StatusOr<std::unique_ptr<PageFile>> OpenPage(AgentSetup* setup);
// The identity for this agent's progress page, as if made now.
PageIdentity PageIdentityOf(const AgentSetup& setup);

}  // namespace paceline::agent
