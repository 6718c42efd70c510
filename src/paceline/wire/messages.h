#pragma once

// The messages between the master, its agents and its clients, as plain values. Users of wire see
// these and never protobuf; only to_proto and from_proto translate.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/drill.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/journal_copy.h"
#include "paceline/model/link_test.h"
#include "paceline/model/node.h"
#include "paceline/model/node_memory.h"
#include "paceline/model/phase_time.h"
#include "paceline/model/plan_note.h"
#include "paceline/model/rank_sample.h"
#include "paceline/model/ring_slice.h"
#include "paceline/model/size_speed.h"
#include "paceline/model/wish.h"
#include "paceline/model/world.h"

namespace paceline::wire {

// ---- an agent's stream: agent to master ----

// The first message of every stream; the node's whole state.
struct Register {
  NodeReport report;
  CopyOffer copy;  // of the journal
};
// `ranks` holds only those whose report changed since the last one, and `samples` those ranks that
// have done enough more steps. `times` has all ranks whose rings tell their time, once a second.
struct Heartbeat {
  Generation generation;  // of the last completed assignment
  uint32_t store_port = 0;
  Duration loop_delay;
  std::vector<RankReport> ranks;
  std::vector<RankSample> samples;
  std::vector<RankTimes> times;
  bool awaits_starter = false;            // the starter runs, and imports
  std::optional<NodeMemory> memory = {};  // none: about as told before
};
struct RankEnd {
  RankReport rank;
  std::optional<RankTimes> times;  // its last ones, if its ring told them
};
struct Leaving {
  std::string why;
};
// How much of this master's journal the node has now.
struct JournalHeld {
  uint64_t taken = 0;
};
using JournalBytes = JournalPiece<std::string>;
// The answer to RingsWanted. The master passes the content on to who asked, and does not read it.
struct RingPiece {
  uint64_t id = 0;
  std::string content;  // EncodeRingPart (wire/codec/ring_part.h)
};
using AgentMessage =
    std::variant<Register, Heartbeat, RankEnd, Leaving, CheckpointReport, NodeEvidence, JournalHeld,
                 JournalBytes, PlanNote, NodeCheck, RingPiece, LinkTested>;

// ---- master to agent ----

// The registration is durable. JobSpec has the agent's timers.
struct Welcome {
  NodeId node;
  JobSpec spec;
  Duration heartbeat_interval;  // longer in very large jobs
  uint32_t lease_port = 0;      // of the lease channel on the master's host; 0: none
  // The speaking master. Of several masters, the one with the highest term is the job's.
  uint64_t term = 0;
  uint64_t incarnation = 0;  // of that term's master process
};
// The heartbeat interval changed, because the number of nodes has.
struct Pace {
  Duration heartbeat_interval;
};
// An error in four parts, the last message of its stream.
struct Refusal {
  std::string code;  // "PL-E…"
  std::string what;
  std::string why;
  std::string fix;
  bool retry = false;  // the cause may pass within seconds
  bool operator==(const Refusal&) const = default;
};
// A rank is quiet: look at this node's ranks and answer with NodeEvidence.
struct EvidenceOrder {
  Generation generation;
  uint64_t round = 0;
};
// Send what you have of the journal, from there on; JournalBytes is the answer.
struct JournalWanted {
  uint64_t from = 0;
};
// Which part of a node's flight rings is wanted, for a trace.
struct RingCursor {
  uint32_t rank = 0;      // this one's ring, or the node's next one above
  Generation generation;  // of the ring of which `before` is
  uint64_t before = 0;    // number of a record; 0: the newest ones
  Duration last;          // how far the trace goes back
  bool operator==(const RingCursor&) const = default;
};
// Read that part and answer with RingPiece.
struct RingsWanted {
  uint64_t id = 0;
  RingCursor at;
};
// A piece of the journal, for a copy: JournalHeld is the answer.
using MasterMessage =
    std::variant<Welcome, Pace, Assignment, Refusal, CheckpointOrder, EvidenceOrder, JournalBytes,
                 JournalWanted, RingsWanted, LinkTry>;

// ---- the stream of the process that starts nodes (Control.Supervise) ----

// The platform reports that the agent and all ranks of this node are dead.
struct NodeGoneReport {
  std::string name;
  std::string evidence;
  int32_t agent_pid = 0;  // of the dead agent; 0: unknown
  std::optional<uint32_t> incarnation = {};
  bool operator==(const NodeGoneReport&) const = default;
};
// Why a wished node does not run yet, in the platform's words; "": it runs.
struct NodePending {
  std::string name;
  uint32_t incarnation = 0;
  std::string reason;
  bool operator==(const NodePending&) const = default;
};
// The platform is about to end a node, or all of the job.
struct Notice {
  std::string name;  // "": the whole job
  std::optional<uint32_t> incarnation = {};
  Duration left;
  std::string why;
  bool operator==(const Notice&) const = default;
};
// The operator has stored the job's end, or needs nothing of it.
struct EndKept {
  std::string name = {};  // always empty: the message is of no node
  bool operator==(const EndKept&) const = default;
};
// The number of nodes that the platform's user wants. The summary tells what became of it.
struct SizeWanted {
  std::string name = {};  // always empty: the message is of no node
  uint32_t nodes = 0;
  std::string why;
  bool operator==(const SizeWanted&) const = default;
};
using SupervisorMessage = std::variant<NodeGoneReport, NodePending, Notice, EndKept, SizeWanted>;

// One series of the job's metrics, named as in master/report/metrics.h.
struct Measure {
  std::string name;
  std::string of;  // the value of its label; "": it has none
  double value = 0;
  bool operator==(const Measure&) const = default;
};
inline constexpr size_t kMemoBytesMax = 2048;
// The job's summary for the platform's users.
struct Summary {
  std::string phase;
  std::string pending;  // what it waits for, or "trains"
  uint32_t nodes = 0;   // in the world
  uint32_t spares = 0;
  int64_t step = -1;
  double goodput = 0;
  std::string last;  // the newest sentence about a failure; "" if there was none
  uint32_t restart_count = 0;
  std::string memo;  // kept by the platform for the next term's master; at most kMemoBytesMax
  // The number of nodes that a user or a measurement chose; 0: nobody has chosen. Unset: this
  // master takes no SizeWanted.
  std::optional<uint32_t> size = {};
  bool size_is_measured = false;
  uint32_t size_refused = 0;  // the newest SizeWanted that was refused; 0: it was not
  std::string refusal = {};   // why
  std::vector<Measure> measures = {};
  bool operator==(const Summary&) const = default;
};
struct JobEnded {  // the last order; `paceline run` returns its exit code
  int exit_code = 0;
  std::string reason;
  std::string history = {};  // for operators: EncodeHistory (wire/codec/history_codec.h)
};
using SupervisorOrder = std::variant<Wish, Summary, JobEnded>;

// ---- status, events, stop ----

struct RankStatus {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  int32_t pid = 0;
  uint64_t generation = 0;
  std::string state;  // starting, running, stepping, exited
  int64_t step = -1;  // absolute; -1 if the script did not report it
  int64_t step_count = 0;
  int64_t saved_step = -1;
  std::optional<double> loss;
  std::string exit;  // a sentence, if state is exited
  bool operator==(const RankStatus&) const = default;
};

struct NodeStatus {
  uint32_t id = 0;
  std::string name;
  std::string state;   // seated, spare, lost, left, evicted
  std::string reason;  // of that state
  std::string address;
  int32_t agent_pid = 0;
  bool connected = false;
  Duration silent_for;  // since it was last heard
  std::optional<uint32_t> seat;
  uint64_t generation = 0;  // of the last completed assignment
  std::vector<RankStatus> ranks;
  bool operator==(const NodeStatus&) const = default;
};

// The job's checkpoints. A step is -1 if there is none.
struct CheckpointStatus {
  std::string directory;         // empty: the script has made no Checkpointer
  int64_t memory_step = -1;      // newest step that every rank of the world has in memory
  int64_t storage_step = -1;     // newest committed step
  int64_t writing_step = -1;     // being written to storage
  uint64_t storage_bytes = 0;    // of the newest committed
  std::string problem;           // why the last due step is not in storage; empty: it is
  std::string restored;          // where the world's state was restored from, one sentence
  int64_t restored_step = -1;    // the restored step
  uint32_t memory_restores = 0;  // worlds of the job that restored from memory
  uint32_t storage_restores = 0;
  uint32_t commits = 0;                 // checkpoints that reached storage
  std::optional<Duration> storage_age;  // since the last commit; none: there was none
  bool operator==(const CheckpointStatus&) const = default;
};

// Ranks that are reported as slow; see SlowFinding.
struct SlowStatus {
  std::vector<uint32_t> ranks;
  std::string sentence;
  double excess = 0;
  double cost = 0;
  bool is_data = false;
  bool operator==(const SlowStatus&) const = default;
};

// A hang that lasts, and about which nothing has been done.
struct HangStatus {
  uint64_t seq = 0;             // of its event
  std::vector<uint32_t> ranks;  // that are named for it; may be empty
  std::string sentence;
  bool operator==(const HangStatus&) const = default;
};

// The parallel plan of the current or last world, if its script has one.
struct PlanStatus {
  uint64_t generation = 0;  // 0: no plan was reported
  std::string words;        // "data 2"
  std::string sentence;
  double step = 0;   // predicted seconds; 0: not known
  std::string plan;  // its text; "": it is too long
  bool operator==(const PlanStatus&) const = default;
};

struct SizeStatus {
  uint32_t nodes_min = 0;
  uint32_t nodes_max = 0;
  uint32_t unit = 1;
  uint32_t chosen = 0;       // by `paceline scale`; 0: none
  bool can_keep = false;     // a step is known that a world of another size can restore
  bool is_measured = false;  // the chosen size was chosen by measurement
  std::string mode;          // off, advise, auto
  uint32_t best = 0;         // number of nodes; 0: not known
  std::string advice;        // one sentence; "": too little is known
  std::string hindrance;     // why the master does not change the size by itself; "": it may
  std::vector<SizeSpeed> curve;
  bool operator==(const SizeStatus&) const = default;
};

// A task of a job that has no world.
struct TaskStatus {
  std::string name;  // "ps-1"
  std::string node;
  std::string state;  // starting, running, failed, done, ended
  uint32_t restarts = 0;
  Duration age;  // since its present process was ordered
  uint64_t generation = 0;
  std::string address;  // host:port
  int32_t pid = 0;      // 0: none is known
  std::string note;     // of a failed task: how it failed
  bool operator==(const TaskStatus&) const = default;
};

struct JobStatus {
  std::string job_id;
  std::string name;
  std::string phase;    // waiting, starting, running, stopping, finished
  std::string pending;  // one sentence: what it waits for, or "trains"
  int32_t master_pid = 0;
  uint64_t master_incarnation = 0;
  uint64_t generation = 0;
  uint32_t world_size = 0;
  uint32_t restart_count = 0;
  uint32_t failures = 0;  // charged ones
  int64_t step = -1;      // highest known step: absolute if the script reports it, else counted
  std::optional<double> loss;
  double goodput = 0;                  // share of the time since the first world with new steps
  double steps_per_second = 0;         // of the last minute; 0: not known
  std::optional<Duration> since_step;  // since the last step; none: not known
  int64_t steps_total = 0;             // of the whole training; 0: not known
  Duration age;                        // since the job was created
  std::string journal;                 // "ok", or why decisions are delayed
  uint64_t last_seq = 0;
  std::optional<int> exit_code;  // if finished
  std::string final_reason;
  std::vector<NodeStatus> nodes;
  CheckpointStatus checkpoints;
  std::vector<SlowStatus> slow;
  std::vector<std::string> excluded_hosts;
  std::vector<std::string> links;  // a sentence for each link that may be bad
  PlanStatus plan;
  std::optional<HangStatus> hang;  // none: no hang is suspected
  SizeStatus size;
  std::vector<TaskStatus> tasks;    // in the order of their ranks; empty: the job has a world
  std::vector<std::string> memory;  // a sentence for each node whose memory runs out
  bool operator==(const JobStatus&) const = default;
};

struct WorldMember {
  std::string node;
  uint32_t seat = 0;
  uint32_t first_rank = 0;
  uint32_t ranks = 0;
  bool operator==(const WorldMember&) const = default;
};

// One record of the journal for people and scripts ("paceline.event/1").
struct JobEvent {
  uint64_t seq = 0;
  int64_t time_ns = 0;  // since the Unix epoch
  std::string kind;     // core::FactName
  std::string node;     // name; empty if the event is of no node
  std::optional<uint32_t> rank;
  uint64_t generation = 0;  // 0: none
  std::optional<int64_t> step;
  std::string sentence;
  std::vector<uint64_t> causes;
  std::map<std::string, std::string> details;
  std::vector<WorldMember> members;  // if world_formed
  bool operator==(const JobEvent&) const = default;
};

struct StopRequest {
  std::string why;
  Duration grace;
  int exit_code = 0;
  bool force = false;
  int signal = 0;  // first signal for ranks; 0: SIGTERM
};

struct ScaleRequest {
  uint32_t nodes = 0;
  bool at_once = false;  // even if steps are then done twice
  bool dry_run = false;  // only whether it is possible
  std::string why;
  // Of a job with table servers, instead of nodes. 0: as many as before.
  uint32_t workers = 0;
  uint32_t servers = 0;
};
struct ScaleReply {
  std::string refusal;  // why the job cannot have so many nodes; "": it can
  // Of a job with table servers: what it has from now on.
  uint32_t workers = 0;
  uint32_t servers = 0;
};

struct DrillRequest {
  std::string kind;
  DrillLoss loss = DrillLoss::kRank;
  std::string node;
  std::optional<uint32_t> rank = {};  // none: the whole node, or its agent
  bool dry_run = false;               // only what it costs
  std::string why;
};
struct DrillReply {
  std::string refusal;  // why the job is not struck; "": it may be
  std::string fix;
  std::string cost;
};

// ---- `paceline open` ----

struct PageLink {
  std::string http;  // host:port of the page, on the loopback address of the master's host
  std::string code;  // valid once, for a minute
  std::string host;  // name of the master's host
  bool operator==(const PageLink&) const = default;
};

// ---- `paceline stacks` ----

struct NodeStacks {
  std::string node;
  std::vector<RankEvidence> ranks;  // without collectives
  bool operator==(const NodeStacks&) const = default;
};
struct JobStacks {
  std::vector<NodeStacks> nodes;
  std::vector<std::string> silent;  // nodes of the world whose agents did not answer in time
  bool operator==(const JobStacks&) const = default;
};

// ---- `paceline trace` ----

struct RingsRequest {
  std::string node;
  RingCursor at;
};
struct RingsReply {
  std::string silence;  // why there is no content; "": there is
  std::string content;  // as in RingPiece
  // The master's host. The times of the job's events are by its clock.
  std::string boot_id;
  HostNow now;
};

}  // namespace paceline::wire
