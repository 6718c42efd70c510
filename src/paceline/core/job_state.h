#pragma once

// The two halves of a job's state; see job.h.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/book.h"
#include "paceline/core/checkpoint/ledger.h"
#include "paceline/core/detect/checks_due.h"
#include "paceline/core/event.h"
#include "paceline/core/node_map.h"
#include "paceline/core/record.h"
#include "paceline/core/world/pair_watch.h"
#include "paceline/core/world/rendezvous.h"
#include "paceline/core/world/room.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/node.h"
#include "paceline/model/wish.h"
#include "paceline/model/world.h"

namespace paceline::core {

// kTasks: the tasks are placed. All other phases of a job with a world mean what they say; a job of
// tasks has neither kStarting nor kRunning, which imply a world.
enum class Phase { kEmpty, kWaiting, kStarting, kRunning, kTasks, kStopping, kFinished };
std::string_view PhaseName(Phase phase);

// The platform takes the node away soon.
struct LeaveNotice {
  Instant at;  // when it came
  Instant leave_by;
  int64_t saved_step = -1;  // newest checkpoint of the job when the notice came
  std::string reason;
  RecordSeq seq;
  bool operator==(const LeaveNotice&) const = default;
};

// Devices of a node, as its ranks told with their parallel plan.
struct NodeDevices {
  std::string type;
  uint64_t memory = 0;  // bytes that a rank may use of one
  uint32_t count = 0;
  bool operator==(const NodeDevices&) const = default;
};

// How a node went since the last world was formed, and what came under its name afterwards.
struct Departure {
  std::string how;               // "was rebooted"
  std::string old_address;       // of the agent that went
  bool is_back = false;          // an agent of that name has joined since
  uint32_t new_incarnation = 0;  // as that agent reported; 0: its platform numbers no incarnations
  bool operator==(const Departure&) const = default;
};

// The newest record of a node's memory.
struct MemoryTold {
  Generation generation;
  uint64_t limit = 0;       // then
  uint64_t next_limit = 0;  // 0: the limit stays
  bool is_kill = false;
  int64_t saved_step = -1;  // newest checkpoint of the job then
  uint32_t commits = 0;     // checkpoints that were in storage then
  std::string sentence;
  RecordSeq seq;
  bool operator==(const MemoryTold&) const = default;
};

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
  bool fresh_image_tried = false;  // since the last progress; another one would change nothing
  uint32_t departures = 0;  // times it was lost or left; a flapping node waits longer to rejoin
  Instant since;            // of the last change of status
  bool finished = false;    // all ranks of its current world had exited with 0 when it was lost
  std::string reason;       // of the last change of status
  RecordSeq cause;          // record of the last change of status
  std::optional<LeaveNotice> notice = {};   // until a node of that name joins again
  std::optional<Departure> departure = {};  // until the next world is formed
  std::optional<NodeCheck> check = {};      // of its present agent, once it is over
  uint32_t check_round = 0;                 // an older check does not count
  bool is_slow_once = false;                // a round before found it slow
  Instant moved_at;                         // when a spare took its ranks, as it was slow; 0: never
  uint64_t memory_limit = 0;  // to which that of its own cgroup was raised; 0: it was not
  std::optional<MemoryTold> memory_told = {};
  std::vector<NodeDevices> devices;  // in the order of its local ranks; empty: not told
  // Neither lost nor left.
  bool IsMember() const { return status == Status::kSpare || status == Status::kSeated; }
  // It left, or was taken out: only its next agent brings it back.
  bool IsSentAway() const { return status == Status::kLeft || status == Status::kEvicted; }
  bool operator==(const NodeState&) const = default;
};
std::string_view NodeStatusName(NodeState::Status status);

// What the restart budget counts; see budget.h.
struct BudgetState {
  uint32_t charged_failures = 0;  // in total, for --max-restarts
  uint32_t failures_without_progress = 0;
  std::string last_fingerprint;  // of the last charged failure, with its step
  std::string last_headline;
  bool last_is_final = false;       // no restart can mend it
  bool last_is_repeatable = false;  // an exception or exit code of the script's own code
  bool last_not_started = false;    // the process never started: not the script's failure
  bool last_before_step = false;    // the attempt had not made a step
  int64_t last_failure_step = -1;   // absolute; -1: unknown, then the count below is used
  int64_t last_failure_step_count = 0;
  NodeId last_failure_node;
  uint32_t same_failure_count = 0;         // in a row, without progress
  std::vector<NodeId> same_failure_nodes;  // nodes that had that failure, a few
  int64_t step_count_max = 0;              // highest hook count of a failed attempt since progress
  Instant last_failure_at;
  bool operator==(const BudgetState&) const = default;
};

// A task of the job, and its own restart budget.
struct TaskState {
  Task task;
  BudgetState budget;
  Instant since;      // when its generation was placed
  RecordSeq placed;   // the record of that
  RecordSeq failure;  // RankFailed of its generation; 0: it has not failed
  bool operator==(const TaskState&) const = default;
};

// Why the current or last world had to end; empty after a new one was formed.
struct Incident {
  bool pending = false;
  Generation generation;          // of the world that it ended
  std::vector<RecordSeq> causes;  // oldest first, at most kIncidentCausesMax
  bool has_blamed = false;
  NodeId blamed;         // node of the failed rank
  RecordSeq failure;     // the charged RankFailed, 0 = none
  bool cascade = false;  // it looks like the consequence of another failure
  bool operator==(const Incident&) const = default;
};
inline constexpr size_t kIncidentCausesMax = 8;
inline constexpr size_t kLinksToldMax = 16;

// A RecoveryDecided whose world is not formed yet.
struct PendingDecision {
  bool pending = false;
  Rung rung = Rung::kNone;
  bool has_blamed = false;
  NodeId blamed;
  RecordSeq seq;
  bool operator==(const PendingDecision&) const = default;
};

// A node's entry in the wish, if it differs from the initial one.
struct WishedNode {
  uint32_t incarnation = 0;
  uint32_t replaced = 0;  // times, since the job made progress
  bool operator==(const WishedNode&) const = default;
};

struct PlannedGrowth {
  bool pending = false;
  int64_t saved_step = -1;  // a newer checkpoint lets the nodes in
  Instant at;               // a later file of the script lets them in, too
  RecordSeq seq;
  bool operator==(const PlannedGrowth&) const = default;
};

// A hang of the present world that was named and not acted on, until its end is recorded.
struct ToldHang {
  bool pending = false;
  Instant since;  // the last sign of life before it
  RecordSeq seq;
  bool operator==(const ToldHang&) const = default;
};

// The newest drill on the job, until what it struck has come back.
struct RunningDrill {
  NodeId node;
  bool has_rank = false;
  Rank rank;
  Instant at;
  RecordSeq seq;
  bool operator==(const RunningDrill&) const = default;
};

// The number of nodes that was chosen, by `paceline scale` or by measurement. All later worlds obey
// it.
struct ChosenSize {
  uint32_t nodes = 0;  // 0: none was chosen
  int64_t saved_step = -1;
  bool at_once = false;
  bool is_measured = false;  // false: by a user
  uint32_t commits = 0;      // checkpoints that were in storage then
  Instant at;
  RecordSeq seq;
  bool operator==(const ChosenSize&) const = default;
};

// Durable: fold of the records, compared field by field by the checker `journal_folds`.
struct JobState {
  Phase phase = Phase::kEmpty;
  JobSpec spec;
  uint64_t master_incarnation = 0;
  uint64_t term = 0;           // of the newest master
  bool has_lost_past = false;  // that term began without any record of the terms before
  Generation before_term;      // highest that was used when that term began, as far as it is known
  NodeMap<NodeState> nodes;
  std::map<std::string, NodeId> by_name;
  std::map<uint32_t, WishedNode> wished;  // by index
  std::vector<std::string> excluded;      // hosts, oldest first; at most Memo::kHostsMax
  std::optional<World> world;             // current or, between worlds, none
  std::vector<TaskState> tasks;           // in the order of their ranks; empty: none is placed
  RecordSeq tasks_seq;                    // TasksPlaced that placed them all
  TableRouting routing;                   // of the job's table servers
  RecordSeq moves_seq;                    // the last record that changed which partitions move next
  World last_world;                       // seats to keep when the next one is formed
  Generation generation;                  // highest ever used, granted blocks included
  Generation solo_last;  // last generation of the block granted with the current world
  bool has_fresh_node = false;
  NodeId fresh_node;  // its ranks in this world come from a new starter
  uint32_t restart_count = 0;
  uint32_t port_taken_count = 0;  // consecutive worlds that failed on a taken store port
  BudgetState budget;
  BudgetState budget_before;  // before the last charge, to undo it
  Incident incident;
  Incident last_incident;  // of the last formed world; kept while a better explanation may come
  PendingDecision decision;
  PlannedGrowth growth;
  ToldHang hang;
  ChosenSize size;
  std::optional<NodeId> short_node;   // the newest with a record of its memory; none: there is none
  std::optional<NodeId> moved_node;   // a spare takes its ranks; its checks are not repeated yet
  std::optional<RunningDrill> drill;  // none: no drill is under way
  CheckpointBook checkpoints;
  bool only_stores = false;     // resumed with all done: its last step is to be brought to storage
  uint32_t finished_count = 0;  // seats of lost nodes whose ranks had exited with 0
  // ProgressMade was recorded for this world: by steps or lasting work, or by weaker evidence.
  bool progress_in_world = false;
  bool evidence_in_world = false;
  bool has_resumed = false;                // an attempt has continued from a step of an earlier one
  int64_t step_max = -1;                   // highest known step at the last record
  std::vector<PairsJudged::Link> links;    // that may be bad; at most kLinksToldMax, oldest first
  std::vector<SlowFinding> slow;           // recorded for the current world, and not over
  std::optional<ModelDescribed> model;     // the newest
  std::optional<ParallelPlanChosen> plan;  // the newest, perhaps of a world that is over
  int64_t bad_loss_step = -1;  // first step of the newest series of bad losses in the world
  std::string waiting_for;
  Duration stop_grace;
  int stop_signal = 0;  // 0: SIGTERM
  bool is_stop_asked = false;
  int exit_code = 0;
  std::string final_reason;
  int64_t final_step = 0;  // of an ended job; 0: none is known
  RecordSeq last_seq;
  Instant world_since;  // when the current or last world was started
  RecordSeq world_seq;  // WorldFormed of the current or last world
  Instant last_record_at;
  Instant phase_since;
  Instant created_at;
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
  // The number of nodes that the next world may have, by the user's limits, the size that was
  // chosen, and the ranks' needs.
  WorldBounds NextBounds() const;
  // The number of ranks that a world needs to restore the job's checkpoints, because each rank has
  // its own parameters. 0: any number.
  uint32_t RanksFixed() const;
  bool AnyWorldYet() const { return last_world.generation.value() != 0; }
};

// The only function that changes JobState. Accepts any record in order of seq: a record states a
// result, so there is nothing to refuse.
void Apply(const Record& record, JobState* state);

// An agent that asked for a node's name while another agent had it; see name_contest.h.
struct Rival {
  uint64_t agent_incarnation = 0;
  std::string boot_id;
  Instant since;  // when it first asked
};

// Volatile: this master's knowledge of a node.
struct NodeLink {
  std::optional<ConnectionId> connection;
  bool registered = false;  // with this master; false: still expected back
  bool gone = false;        // the platform saw it die while its stream looked intact
  Instant last_heard;
  Instant listens_since;    // this master began, the journal stalled or imports ended; 0: none did
  Instant disconnected_at;  // meaningful without connection
  Duration loop_delay;      // recent maximum, decaying
  bool awaits_starter = false;  // it received its order; its starter imports, and cannot fork yet
  Generation carried_out;       // generation of the assignment the agent last carried out
  std::vector<uint32_t> task_ports;  // held, by slot
  uint32_t store_port = 0;           // held for the next world; 0: none known
  uint32_t used_port = 0;            // last given to a world, and
  Generation used_in;                // to which one: an older report does not offer it again
  std::string boot_id;               // of the connected agent, as the next five
  std::string address;
  std::string host;  // its platform's name of it; "": not known
  uint32_t slots = 0;
  uint64_t agent_incarnation = 0;
  uint32_t incarnation = 0;  // of the node, as that agent told it
  int32_t agent_pid = 0;
  NodeCheck check;
  std::string bulk;                      // of that agent, as it reported
  bool has_links_tested = false;         // of that agent
  std::vector<Rival> rivals;             // a few, without the connected one
  std::map<uint32_t, RankReport> ranks;  // by local rank, of the newest generation reported
  bool stepping = false;                 // all its ranks in the current world have made a step
  bool running = false;                  // all its ranks of the current world are at least running
  bool done = false;                     // all its ranks of the current world exited with 0
  uint32_t quiet = 0;                    // ranks of the current world that are quiet
  Assignment told;                       // last assignment sent; generation 0 and kIdle: none
  bool tell = false;                     // send it again, even if unchanged
  CheckpointOrder told_checkpoint;       // last order sent
};

// Volatile: the state of the questions about a world with a quiet rank.
struct HangWatch {
  uint64_t round = 0;  // of the newest question
  // The newest recorded verdict on which nothing was done, while the hang lasts; 0: none.
  RecordSeq told_seq;
  std::vector<Rank> told_ranks;  // its culprits
  std::string told_sentence;
  bool is_asked = false;  // waiting for answers
  Instant asked_at;
  Instant look_at = Instant::Max();  // when to ask again; Max: no rank is quiet
  std::map<NodeId, NodeEvidence> answers;
  std::set<std::string> told;  // recorded verdicts, to record each once
};

// Volatile: the one slow node of the world, for which a spare may be taken.
struct SlowNode {
  NodeId node;
  Instant since;            // when it became the only slow one, as far as this master knows
  int64_t saved_step = -1;  // newest checkpoint of the job then
  uint32_t commits = 0;     // checkpoints that were in storage then
  Instant look_at;          // when to ask again whether a spare takes its ranks
};

// Volatile: the time by phase that the ranks of the current world told last, and when it was
// recorded.
struct TimeWatch {
  TimeTold told;
  Instant told_at;
  Generation accounted;  // the newest generation of a TimeAccounted
  Instant accounted_at;
};

// Volatile: the other knowledge of this master. Counters are for the current world.
struct Watch {
  Instant last_step_at;
  Instant deadline = Instant::Max();       // what NextDeadline() said after the last step
  bool is_calm = false;                    // no other event waits, this step is for time alone
  ChecksDue checks;                        // no verdict changes before
  bool check_all = false;                  // the phase changed: every verdict may differ
  Instant settle_at = Instant::Max();      // when to check again what delays the next world
  Instant grow_at = Instant::Max();        // when a node that kept leaving may join
  Instant leave_at;                        // when to check the nodes under notice; Max: none
  Instant minimum_since = Instant::Max();  // first world: since when there are enough nodes
  bool dirty = true;                       // membership or a store port changed: check again
  std::vector<NodeId> tells;               // nodes whose link has `tell` set
  bool may_wish_anew = true;               // a record may have changed the wish
  std::optional<Wish> told_wish = {};
  uint32_t connected_count = 0;  // spare or seated nodes with a stream
  std::set<NodeId> checking;     // of these, nodes whose checks run
  PairWatch pairs;
  std::optional<SlowNode> slow_node = {};
  uint32_t running_seats = 0;
  uint32_t stepping_seats = 0;
  uint32_t done_seats = 0;
  uint32_t quiet_ranks = 0;
  HangWatch hang;
  std::optional<LossWentBad> bad_loss = {};  // reported, and perhaps recorded already
  TimeWatch time;
  int64_t step = -1;                  // highest absolute step reported
  int64_t step_count = 0;             // highest hook count of the current world
  Instant stepped_at;                 // when a rank told the newest of these
  int64_t world_step = -1;            // highest absolute step of the current world
  uint32_t saved_files = 0;           // most that a rank of the current world wrote
  Instant filed_at;                   // when a rank told that it wrote one more,
  int64_t filed_step_count = 0;       // and its steps by then
  LeasedWorkDone leased_work;         // until now,
  LeasedWorkDone leased_work_before;  // and until the last failure
  int64_t saved_step = -1;
  Instant saved_at;              // when a rank first reported it,
  int64_t saved_step_count = 0;  // and its steps by then; 0: not in the current world
  // The duration of the last restart, from the forming of the world to its first step. Before the
  // first restart a guess for a small model.
  Duration restart_took = Duration::Seconds(1);
  std::string pending;  // what delays the next world
  Room room;
  CheckpointLedger checkpoints;
  bool awaits_storage = false;  // the job ends when its last checkpoint is in storage
  // Set while the journal cannot be written. Nodes are not judged then, because they get no
  // answers.
  std::optional<Instant> journal_stalled_at = {};
};

}  // namespace paceline::core
