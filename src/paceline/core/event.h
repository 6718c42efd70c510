#pragma once

// Everything that can happen to a job, as one closed variant. Events are past tense and carry
// what was seen, never what should be done. Job::Step is total over them: any order, duplicates
// and stale ones included.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/node.h"

namespace paceline::core {

// A user submitted the job; the first event of a fresh journal and ignored ever after.
struct JobSubmitted {
  JobSpec spec;
};

// This master process took over (first start too). Every node counts as heard just now, because
// silence while there was no master is not the node's fault.
struct MasterStarted {
  uint64_t incarnation = 0;  // higher than any before
  bool resumes = false;      // a user started the job again: one that did not end with 0 goes on
};

// An agent opened a stream and told the whole truth of its node.
struct NodeRegistered {
  ConnectionId connection;
  NodeReport report;
};

// A heartbeat. `ranks` holds only those whose report changed since the last one; often none.
struct NodeReported {
  NodeId node;
  ConnectionId connection;
  Generation generation;  // of the assignment the agent last carried out
  uint32_t store_port = 0;
  Duration loop_delay;  // worst lateness of the agent's own timers since the last heartbeat
  std::vector<RankReport> ranks;
};

// Heartbeats without news, taken in together: each of these nodes was heard on its connection since
// the last event. A host with thousands of nodes may say so once instead of a thousand times.
struct NodesHeard {
  std::vector<NodeId> nodes;
};

// A rank ended. Sent at once, not with the next heartbeat.
struct RankExited {
  NodeId node;
  ConnectionId connection;
  RankReport rank;
};

// What a node has of checkpoints changed.
struct CheckpointReported {
  NodeId node;
  ConnectionId connection;
  CheckpointReport report;
};

// What a node found out about its ranks, asked by CollectEvidence.
struct EvidenceCollected {
  NodeId node;
  ConnectionId connection;
  NodeEvidence evidence;
};

// The stream broke. The agent or only the network may be gone: its ranks may be well.
struct NodeDisconnected {
  NodeId node;
  ConnectionId connection;
};

// The platform knows that the agent and all its ranks are dead (a witness beside silence).
struct NodeGone {
  std::string name;
  std::string evidence;
  int32_t agent_pid = 0;  // the dead agent's; 0 = unknown. A report about an older agent is stale.
  std::optional<uint32_t> incarnation = {};  // of the dead node; a report about an older one, too
};

// The agent was asked by its own host to leave (Ctrl-C there, a scheduler's notice).
struct NodeLeaving {
  NodeId node;
  ConnectionId connection;
  std::string why;
};

struct StopRequested {
  std::string why;
  Duration grace;
  int exit_code = 0;   // what `paceline run` shall return: 130, 143, 10, …
  bool force = false;  // a second Ctrl-C, or stop --force: no grace
  int signal = 0;      // what ranks get first; 0: SIGTERM
};

// The disk takes no records, as when it is full: nothing that is decided reaches anybody.
struct JournalStalled {};

// It takes them again: what they order reaches the nodes only now.
struct JournalCaughtUp {};

// A deadline of NextDeadline() has passed; also harmless at any other time.
struct TimePassed {};

using Event =
    std::variant<JobSubmitted, MasterStarted, NodeRegistered, NodeReported, NodesHeard, RankExited,
                 CheckpointReported, EvidenceCollected, NodeDisconnected, NodeGone, NodeLeaving,
                 StopRequested, JournalStalled, JournalCaughtUp, TimePassed>;

}  // namespace paceline::core
