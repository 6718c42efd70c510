#pragma once

// Everything that can happen to a job, as one closed variant. Events are past tense and describe
// what was seen, not what to do. Job::Step accepts them in any order, repeated and outdated ones
// included.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/link_test.h"
#include "paceline/model/node.h"
#include "paceline/model/node_memory.h"
#include "paceline/model/phase_time.h"
#include "paceline/model/plan_note.h"
#include "paceline/model/rank_sample.h"
#include "paceline/model/table_routing.h"

namespace paceline::core {

// A user submitted the job: the first event of a new journal, ignored later.
struct JobSubmitted {
  JobSpec spec;
};

// This master process took over (also at the first start). Every node counts as just heard, because
// a node is not to blame for silence without a master.
struct MasterStarted {
  uint64_t incarnation = 0;  // higher than any before
  bool resumes = false;      // a user restarted the job: one that did not end with 0 continues
  uint64_t term = 0;         // given by the platform; ignored when it is lower than one before
  History history = History::kOwn;
  std::optional<Memo> memo = {};  // from the platform; used only if `history` is kNone
};

// An agent opened a stream and reported its node's whole state.
struct NodeRegistered {
  ConnectionId connection;
  NodeReport report;
};

// A heartbeat. `ranks` has only ranks whose report changed; often none.
struct NodeReported {
  NodeId node;
  ConnectionId connection;
  Generation generation;  // of the agent's last completed assignment
  uint32_t store_port = 0;
  Duration loop_delay;  // the agent's worst timer delay since the last heartbeat
  std::vector<RankReport> ranks;
  bool awaits_starter = false;  // AgentMachine::awaits_starter
};

// Heartbeats without news, combined: each of these nodes was heard on its connection since the last
// event. A host with thousands of nodes sends one such event instead of thousands.
struct NodesHeard {
  std::vector<NodeId> nodes;
};

// A rank ended. Sent at once, not with the next heartbeat.
struct RankExited {
  NodeId node;
  ConnectionId connection;
  RankReport rank;
};

// A node's checkpoint state changed.
struct CheckpointReported {
  NodeId node;
  ConnectionId connection;
  CheckpointReport report;
};

// A node's evidence about its ranks, requested by CollectEvidence.
struct EvidenceCollected {
  NodeId node;
  ConnectionId connection;
  NodeEvidence evidence;
};

// The checks of the user have come to an end on a node.
struct NodeCheckEnded {
  NodeId node;
  ConnectionId connection;
  NodeCheck check;
};

// A node has tested its link to another one, as ordered by TestLink.
struct LinkTestEnded {
  NodeId node;
  ConnectionId connection;
  LinkTested test;
};

// The host has compared how the ranks spend their steps. These ranks of that world are slow, and no
// others. Sent when the set of slow ranks changes.
struct PaceJudged {
  Generation generation;
  std::vector<SlowFinding> findings;
};

// How the ranks of a world spent their time until now. Sent about once a second while it grows.
struct TimeTold {
  Generation generation;
  uint32_t ranks = 0;  // that told
  PartSums spent = {};
  std::array<uint32_t, kTimeParts> now = {};  // ranks that are in each part at this moment
};

// Rank 0 of a world reported which parallel plan the ranks carry out.
struct PlanReported {
  NodeId node;
  ConnectionId connection;
  PlanNote note;
};

// The stream broke. The agent may be dead, or only the network; its ranks may be alive.
struct NodeDisconnected {
  NodeId node;
  ConnectionId connection;
};

// The platform reports that the agent and all its ranks are dead (a witness beside silence).
struct NodeGone {
  std::string name;
  std::string evidence;
  int32_t agent_pid = 0;  // of the dead agent; 0: unknown. Older agents are ignored.
  std::optional<uint32_t> incarnation = {};  // of the dead node; older ones are ignored
};

// The platform is about to take the node away: a pod that was deleted, a host that is drained. The
// node may train on until it leaves, at the latest before `left` is over. Repeated until it has
// left.
struct NoticeCame {
  std::string name;
  std::optional<uint32_t> incarnation = {};  // of the node; none: the present one
  Duration left;
  std::string why;
};

// The agent's own host asked it to leave (Ctrl-C there, a scheduler's notice).
struct NodeLeaving {
  NodeId node;
  ConnectionId connection;
  std::string why;
};

struct StopRequested {
  std::string why;
  Duration grace;
  int exit_code = 0;   // exit code for `paceline run`: 130, 143, 10, …
  bool force = false;  // a second Ctrl-C, or stop --force: no grace
  int signal = 0;      // first signal for ranks; 0: SIGTERM
};

// A user wants the job to have so many nodes. See world/resize.h for what is refused before.
struct SizeRequested {
  uint32_t nodes = 0;
  bool at_once = false;  // even if steps are then done twice
  std::string why;
  bool is_measured = false;  // chosen by measurement; false: by a user
};

// A user wants the job to have so many workers and table servers. tasks/task_scale.h has what is
// refused before.
struct TasksRequested {
  uint32_t workers = 0;
  uint32_t servers = 0;
  std::string why;
};

// A user strikes a part of the job that trains, to see what follows. See world/drill.h for what is
// refused before.
struct DrillRequested {
  std::string kind;  // "sigkill"
  DrillLoss loss = DrillLoss::kRank;
  std::string node;               // its name
  std::optional<Rank> rank = {};  // of that node; none: the drill is about the whole node
  std::string why;
};

// The memory of a node will soon be used up, by what its agent told. Sent once for each limit in a
// world.
struct MemoryForeseen {
  NodeId node;
  Generation generation;
  NodeMemory memory;
  double grows = 0;  // bytes a second
  Duration left;     // until the limit is reached
  uint64_t next_limit = 0;
};

// How much leased data the job has finished for good since this master started. No later world
// works on it again. Data sets that are rewound with the model to a checkpoint do not count.
struct LeasedWorkDone {
  uint64_t samples = 0;   // acknowledged, and durable
  uint64_t searches = 0;  // failures that narrowed the search for a bad sample, or ended it
  bool operator==(const LeasedWorkDone&) const = default;
};

// The journal cannot be written, as on a full disk: no decision takes effect.
struct JournalStalled {};

// The journal can be written again: delayed orders reach the nodes only now.
struct JournalCaughtUp {};

// A deadline of NextDeadline() has passed; also harmless at any other time.
struct TimePassed {};

using Event = std::variant<JobSubmitted, MasterStarted, NodeRegistered, NodeReported, NodesHeard,
                           RankExited, CheckpointReported, EvidenceCollected, NodeDisconnected,
                           NodeGone, NoticeCame, NodeLeaving, StopRequested, JournalStalled,
                           JournalCaughtUp, TimePassed, PaceJudged, PlanReported, LeasedWorkDone,
                           SizeRequested, NodeCheckEnded, TasksRequested, PartitionsTaken,
                           DrillRequested, TimeTold, LinkTestEnded, MemoryForeseen>;

}  // namespace paceline::core
