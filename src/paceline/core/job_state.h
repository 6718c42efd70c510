#pragma once

// The two halves of a job's state; see job.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/book.h"
#include "paceline/core/checkpoint/ledger.h"
#include "paceline/core/detect/checks_due.h"
#include "paceline/core/record.h"
#include "paceline/core/world/node_map.h"
#include "paceline/core/world/rendezvous.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/node.h"
#include "paceline/model/wish.h"
#include "paceline/model/world.h"

namespace paceline::core {

enum class Phase { kEmpty, kWaiting, kStarting, kRunning, kStopping, kFinished };
std::string_view PhaseName(Phase phase);

struct NodeState {
  enum class Status { kSpare, kSeated, kLost, kLeft, kEvicted };
  NodeId id;
  std::string name;
  std::string boot_id;
  std::string address;
  uint32_t slots = 0;
  Status status = Status::kSpare;
  uint32_t seat = 0;  // in the current or last world; meaningful when seated
  uint32_t failures_without_progress = 0;
  bool fresh_image_tried = false;  // since progress; another fresh image would change nothing
  uint32_t departures = 0;  // times it was lost or left; a flapping node is taken in ever later
  Instant since;            // of the last change of status
  bool finished = false;    // its ranks of the current world had all exited with 0 when it was lost
  std::string reason;       // of the last change of status
  RecordSeq cause;          // record of the last change of status
  // Neither lost nor gone by itself.
  bool IsMember() const { return status == Status::kSpare || status == Status::kSeated; }
  bool operator==(const NodeState&) const = default;
};
std::string_view NodeStatusName(NodeState::Status status);

// What the restart budget counts; see budget.h.
struct BudgetState {
  uint32_t charged_failures = 0;  // in all, against --max-restarts
  uint32_t failures_without_progress = 0;
  std::string last_fingerprint;  // of the last charged failure, with its step
  std::string last_headline;
  bool last_not_started = false;   // its process was never there: not the script's failure
  int64_t last_failure_step = -1;  // absolute; -1: not told, then the count below stands for it
  int64_t last_failure_step_count = 0;
  NodeId last_failure_node;
  uint32_t same_failure_count = 0;         // in a row, without progress
  std::vector<NodeId> same_failure_nodes;  // where that failure was seen, at most a few
  int64_t step_count_max = 0;  // most hook-counted steps of a failed attempt since progress
  Instant last_failure_at;
  bool operator==(const BudgetState&) const = default;
};

// Why the current or the last world had to end; none after a new one was formed.
struct Incident {
  bool pending = false;
  Generation generation;          // of the world that it ended
  std::vector<RecordSeq> causes;  // oldest first, at most kIncidentCausesMax
  bool has_blamed = false;
  NodeId blamed;         // node of the failed rank
  RecordSeq failure;     // the charged RankFailed, 0 = none
  bool cascade = false;  // that failure looks like the consequence of another one
  bool operator==(const Incident&) const = default;
};
inline constexpr size_t kIncidentCausesMax = 8;

// A RecoveryDecided whose world is not formed yet.
struct PendingDecision {
  bool pending = false;
  Rung rung = Rung::kNone;
  bool has_blamed = false;
  NodeId blamed;
  RecordSeq seq;
  bool operator==(const PendingDecision&) const = default;
};

// What the wish says of one index, where it is not as at the beginning.
struct WishedNode {
  uint32_t incarnation = 0;
  uint32_t replaced = 0;  // times since the job made progress
  bool operator==(const WishedNode&) const = default;
};

struct PlannedGrowth {
  bool pending = false;
  int64_t saved_step = -1;  // a checkpoint newer than this lets the nodes in
  Instant at;               // and so does a file of the script that was finished later
  RecordSeq seq;
  bool operator==(const PlannedGrowth&) const = default;
};

// Durable: fold of the records, compared field by field by the checker `journal_folds`.
struct JobState {
  Phase phase = Phase::kEmpty;
  JobSpec spec;
  uint64_t master_incarnation = 0;
  NodeMap<NodeState> nodes;
  std::map<std::string, NodeId> by_name;
  std::map<uint32_t, WishedNode> wished;  // by index
  std::optional<World> world;             // current or, between worlds, none
  World last_world;                       // seats to keep when the next one is formed
  Generation generation;                  // highest ever used, granted blocks included
  Generation solo_last;                   // end of the block granted with the current world
  bool has_fresh_node = false;
  NodeId fresh_node;  // its ranks of this world are forked from a new starter
  uint32_t restart_count = 0;
  uint32_t port_taken_count = 0;  // worlds in a row that failed on a taken store port
  BudgetState budget;
  BudgetState budget_before;  // before the last charge, to lift it
  Incident incident;
  Incident last_incident;  // of the last formed world, while a better explanation may come
  PendingDecision decision;
  PlannedGrowth growth;
  CheckpointBook checkpoints;
  uint32_t finished_count = 0;     // seats whose node was lost after its ranks had exited with 0
  bool progress_in_world = false;  // ProgressMade was recorded for this world, by its steps,
  bool evidence_in_world = false;  // or by other evidence
  bool has_resumed = false;        // some attempt went on from a step of an earlier one
  int64_t step_max = -1;           // highest step known to be reached when last recorded
  std::string waiting_for;
  Duration stop_grace;
  int stop_signal = 0;      // 0: SIGTERM
  uint32_t stop_count = 0;  // StopDecided records so far
  bool is_stop_asked = false;
  int exit_code = 0;
  std::string final_reason;
  RecordSeq last_seq;
  Instant world_since;  // when the current or last world was started
  RecordSeq world_seq;  // WorldFormed of the current or last world
  Instant last_record_at;
  Instant phase_since;
  bool operator==(const JobState&) const = default;

  const NodeState* Find(NodeId node) const {
    const auto it = nodes.find(node);
    return it == nodes.end() ? nullptr : &it->second;
  }
  const NodeState* Find(const std::string& name) const;
  std::string NameOf(NodeId node) const;  // "node?" when unknown
  // In the current world.
  bool IsSeated(NodeId node) const {
    const NodeState* known = Find(node);
    return world.has_value() && known != nullptr && known->status == NodeState::Status::kSeated;
  }
  // Its seat in the current world; only when IsSeated.
  const Seat& SeatOf(const NodeState& node) const { return world->seats[node.seat]; }
  // How many nodes the next world may have, by the user's word and by that of the ranks.
  WorldBounds NextBounds() const;
  // So many ranks alone can go on from the job's checkpoints: each rank has parameters of its own.
  // 0: any number can.
  uint32_t RanksFixed() const;
  bool AnyWorldYet() const { return last_world.generation.value() != 0; }
};

// The only mutator of JobState. Total over records in order of seq: a record states a result, so
// there is nothing that could be refused.
void Apply(const Record& record, JobState* state);

// An agent that asked for a node's name while another one had it; see name_contest.h.
struct Rival {
  uint64_t agent_incarnation = 0;
  std::string boot_id;
  Instant since;  // when it asked first
};

// Volatile: what this master process hears of a node.
struct NodeLink {
  std::optional<ConnectionId> connection;
  bool registered = false;  // with this master; false: still expected back
  bool gone = false;        // the platform saw it die while its stream still seemed whole
  Instant last_heard;
  Instant listens_since;    // this master's start, or a stall of its journal; 0: it came later
  Instant disconnected_at;  // meaningful without connection
  Duration loop_delay;      // worst of late, decaying
  Generation carried_out;   // generation of the assignment the agent last carried out
  uint32_t store_port = 0;  // held for the next world; 0: none known
  uint32_t used_port = 0;   // given to a world last, and
  Generation used_in;       // to which: a report older than that does not offer it anew
  std::string boot_id;      // of the agent that speaks, as the next two
  uint64_t agent_incarnation = 0;
  uint32_t incarnation = 0;  // of the node, as that agent told it
  int32_t agent_pid = 0;
  std::vector<Rival> rivals;             // few, and not the one that speaks
  std::map<uint32_t, RankReport> ranks;  // by local rank, of the newest generation reported
  bool stepping = false;            // all its ranks of the current world are past the first step
  bool running = false;             // all its ranks of the current world are at least running
  bool done = false;                // all its ranks of the current world exited with 0
  uint32_t quiet = 0;               // ranks of the current world that are quiet
  Assignment told;                  // what it was last told; generation 0 and kIdle: nothing
  bool tell = false;                // tell it again, whatever it was told
  CheckpointOrder told_checkpoint;  // what it was last told of checkpoints
};

// Volatile: what is asked and known of a world in which a rank is quiet.
struct HangWatch {
  uint64_t round = 0;     // of the newest question
  bool is_asked = false;  // and its answers are awaited
  Instant asked_at;
  Instant look_at = Instant::Max();  // when to ask again; Max while nobody is quiet
  std::map<NodeId, NodeEvidence> answers;
  std::string told;  // the last verdict that was told, so that it is told once
};

// Volatile: the rest of what this master process knows. Counters are over the current world.
struct Watch {
  Instant last_step_at;
  Instant deadline = Instant::Max();       // what NextDeadline() said after the last step
  bool is_calm = false;                    // this step is for time alone: no other event waits
  ChecksDue checks;                        // no detector changes its verdict before
  bool check_all = false;                  // the phase changed: every verdict may differ
  Instant settle_at = Instant::Max();      // what holds the next world may have passed
  Instant grow_at = Instant::Max();        // a node that kept leaving may join from then on
  Instant minimum_since = Instant::Max();  // first world: since when enough nodes are here
  bool dirty = true;                       // membership or a store port changed: look again
  std::vector<NodeId> tells;               // nodes whose link has `tell` set
  bool may_wish_anew = true;               // a record may have changed what is wished for
  std::optional<Wish> told_wish = {};
  uint32_t connected_count = 0;  // spare or seated nodes with a stream
  uint32_t running_seats = 0;
  uint32_t stepping_seats = 0;
  uint32_t done_seats = 0;
  uint32_t quiet_ranks = 0;
  HangWatch hang;
  int64_t step = -1;             // highest absolute step heard of
  int64_t step_count = 0;        // highest hook count of the current world
  uint32_t saved_files = 0;      // most that a rank of the current world wrote
  Instant filed_at;              // when a rank told that it wrote one more,
  int64_t filed_step_count = 0;  // and its steps by then
  int64_t saved_step = -1;
  Instant saved_at;  // when a rank told of it first
  // How long the last restart took, from the forming of the world to its first step. Before the
  // first restart: a guess, what a small model takes.
  Duration restart_took = Duration::Seconds(1);
  std::string pending;  // what holds the next world
  CheckpointLedger checkpoints;
  bool awaits_storage = false;  // the job ends when its last checkpoint is in storage
  // Nodes are not judged: who comes gets no answer, and so says nothing more.
  std::optional<Instant> journal_stalled_at = {};
};

}  // namespace paceline::core
