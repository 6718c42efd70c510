#pragma once

// Permanent facts, in the order in which they became true. fold(records) is the job's whole durable
// state. A record states a result ("rank 3 is on node 2") and never asks for a decision, so old
// journals always fold to the same state.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/book.h"
#include "paceline/core/succession/memo.h"
#include "paceline/model/drill.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/node.h"
#include "paceline/model/node_memory.h"
#include "paceline/model/phase_time.h"
#include "paceline/model/rank_sample.h"
#include "paceline/model/task.h"
#include "paceline/model/world.h"

namespace paceline::core {

// Rungs: recover/ladder.cc has their order. A new one comes last, as the journal has the numbers.
enum class Rung {
  kNone,
  kRestartProcess,  // same nodes, same ranks, new world
  kRestartNode,     // also a fresh starter on the blamed node
  kReplaceNode,     // a spare takes the blamed node's seat
  kShrink,          // go on without it, at or above the minimum
  kWait,            // below the minimum: hold until a node joins
  kStop,            // tell the user
  // No rung of the ladder, as nothing has failed: the ranks ask for a world with another plan.
  kMoveLayers,
  kResize,       // the job goes to the size that was chosen
  kReplaceSlow,  // a spare takes the ranks of a slow node
};
std::string_view RungName(Rung rung);  // "restart process", …

// From where a master has the records before its own first one.
enum class History {
  kOwn,   // the journal on its disk
  kCopy,  // a node's copy of it; what was recorded after that is not known
  kNone,  // no node had a copy
};

struct JobCreated {
  JobSpec spec;
};
struct MasterTookOver {
  uint64_t incarnation = 0;
  uint64_t term = 0;  // given by the platform; the job's generations are in it from now on
  // What a master of a new term knows of its predecessors. None: it has their own journal.
  History history = History::kOwn;
};
// No node had a copy of the journal, but the platform has kept this.
struct PastRemembered {
  Memo memo;
};
struct NodeJoined {  // first registration of a name, or a lost/left node's return as a spare
  NodeId node;
  std::string name;
  std::string boot_id;
  std::string address;
  uint32_t slots = 0;
  bool returned = false;
  uint32_t incarnation = 0;  // as it reported
};
struct NodeLost {  // fenced from now on: its ranks are outdated even if they still run
  NodeId node;
  std::string name;
  Duration silent_for;    // since when it had not been heard
  bool finished = false;  // all its ranks had exited with 0: the world can continue without it
  bool explains = false;  // explains the failure before it, whose charge is lifted
  std::string reason;
};
// The platform takes the node away at that time. Its next incarnation is wished for at once, and
// the node leaves as soon as that costs no step. Nobody is to blame: no budget is charged.
struct NodeNoticed {
  NodeId node;
  std::string name;
  Instant leave_by;
  int64_t saved_step = -1;  // newest checkpoint of the job then
  std::string reason;
};
// The agent of a seated node was started again, and has adopted all its ranks.
struct AgentReturned {
  NodeId node;
  std::string name;
  uint32_t ranks = 0;
};
struct NodeLeft {
  NodeId node;
  std::string name;
  std::string reason;
};
// What the checks of the user said of a node. After a failure the node is taken out.
struct NodeChecked {
  NodeId node;
  std::string name;
  bool ok = false;
  std::string reason;
  std::string numbers;  // a JSON object; "": none
  uint32_t round = 0;   // see NodeCheck
};
// The node gets no seat until its checks have been run once more.
struct NodeCheckOrdered {
  NodeId node;
  std::string name;
  uint32_t round = 0;    // of those checks
  bool is_slow = false;  // by the round before, it is much slower than the other nodes
  std::string reason;
};
// The links between hosts were tested in pairs (diagnose/pairs.h). Nodes are their names.
struct PairsJudged {
  struct Link {
    std::string a;
    std::string b;
    std::string problem;
    bool operator==(const Link&) const = default;
  };
  uint32_t nodes = 0;
  uint32_t pairs = 0;
  Duration took;
  double slowest = 0;               // of good links, 10^9 bytes a second; 0: not measured
  std::vector<std::string> bad;     // nodes that get no ranks
  std::vector<Link> bad_links;      // between good nodes
  std::vector<Link> doubtful;       // the link is bad, or one of its two nodes
  std::vector<std::string> missed;  // nodes that no test reached in time
  bool HasTold() const { return !bad.empty() || !bad_links.empty() || !doubtful.empty(); }
  bool operator==(const PairsJudged&) const = default;
};
struct NodeEvicted {  // taken out of the world by a failed verdict; never seated again
  NodeId node;
  std::string name;
  std::string reason;
  std::string host;  // gets no node of the job any more; "": hosts cannot be chosen
};
struct RankFailed {
  NodeId node;
  std::string node_name;
  Generation generation;
  Rank rank;
  int64_t step = -1;  // of that rank; absolute if the script reported it
  int64_t step_count = 0;
  bool charged = true;    // false: no node or script caused it (store port taken)
  bool explains = false;  // explains the end of this generation and takes over the charge
  ExitCause cause;
  Duration died_for;  // since its end, when this was recorded; 0: not known
};
struct RecoveryDecided {
  Rung rung = Rung::kNone;
  NodeId blamed;  // meaningful when has_blamed
  bool has_blamed = false;
  std::string blamed_name;
  int64_t step = -1;  // newest step of the job at the decision
  int64_t saved_step = -1;
  std::string reason;
};
struct WorldFormed {
  World world;
  Generation solo_last;  // 0, or the end of the block granted to a single node
  bool fresh_starter = false;
  NodeId fresh_node;
  std::string reason;
};
struct WorldRunning {  // each rank reported its first step (or, without steps, that it runs)
  Generation generation;
  int64_t step = -1;
  int64_t began_at = 0;  // the training's own step before this world's first; 0: none or unknown
  bool has_no_step = false;  // no rank has told of a step within kStepless
  // The step is the optimizer's own count, which begins at 0 where a script loads a model alone.
  bool is_own_count = false;
};
struct WorldEnded {  // between worlds: no rank may train under this or a lower generation
  Generation generation;
  int64_t step = -1;
  std::string reason;
  int64_t step_count = 0;  // optimizer steps of this world
  // Its work since the last checkpoint that a rank wrote or told of. The next world repeats it, if
  // nothing better is known: the ranks tell no step of the training, or one that begins at 0 again.
  int64_t lost_steps = 0;
  Duration lost_work;
  // Since when no rank had told a new optimizer step. 0: it had none.
  Duration still_for;
  int64_t reached = 0;  // highest step of this world, `step` is that of the job; 0: not known
};
struct SoloRestarted {  // a single node used generations of its block without a master
  NodeId node;
  std::string name;
  Generation generation;
  std::string reason;
};
// Refills the budget, once in a world: for a new highest step, which also ends the repetition of
// steps; or, if steps do not show it, for other evidence of progress.
struct ProgressMade {
  int64_t step = -1;        // -1: steps of the whole training are not known
  int64_t step_count = 0;   // optimizer steps of this attempt; 0: time alone counts
  std::string evidence;     // "a rank finished a checkpoint"; empty: the step is the evidence
  bool is_lasting = false;  // work that no later attempt repeats
};
// A rank is quiet and its world was judged: the cause, and whether a rank is restarted.
struct HangJudged {
  Generation generation;
  std::string hang;   // its class: "stopped", "mismatched call", …
  bool acts = false;  // true: a failure of the first culprit follows
  std::string sentence;
  std::vector<Rank> culprits;      // may be empty: a link or a mount is no rank
  std::vector<std::string> lines;  // the evidence
  Duration quiet_for;              // no rank had done anything for so long; 0: not known
  std::string later;               // what is done about it, and when, if it lasts; "": nothing
  // HangEnded or the end of its world tells when it ended. False in journals of older releases.
  bool end_follows = false;
};
// A hang that was only named has ended by itself: no rank of the world is quiet any more.
struct HangEnded {
  Generation generation;
  Duration lasted;  // since the last sign of life before it
};
// Ranks take longer for each step than their peers, who wait for them. Only recorded: no decision
// follows.
struct RankSlow {
  Generation generation;
  SlowFinding finding;
};
struct RankNoLongerSlow {
  Generation generation;
  SlowFinding finding;  // as it was recorded
};
// How the ranks of a world spent their time until this record, once a minute and before each change
// of what the world does. The sums only grow, so the newest record of a generation has it all.
struct TimeAccounted {
  Generation generation;
  uint32_t ranks = 0;  // that told
  PartSums spent = {};
  int64_t steps = 0;  // of this world; 0: none yet, or not known
};
// A series of bad losses began. It affects all ranks of a world, so it is recorded once, for the
// first rank that reports it.
struct LossWentBad {
  Generation generation;
  Rank rank;
  BadLoss bad;
};
// The model that the ranks train, by their parallel plan's summary. Recorded once for each model.
struct ModelDescribed {
  std::string name;
  uint64_t parameters = 0;
  uint64_t global_batch = 0;
  std::string summary;  // docs/formats/parallel_plan.md
  std::string wishes;
  bool operator==(const ModelDescribed&) const = default;
};
// The parallel plan that the ranks of a world carry out.
struct ParallelPlanChosen {
  Generation generation;
  std::string words;    // "data 2"
  std::string before;   // the words of the job's plan before this one; "": it is the first
  std::string because;  // one sentence
  double step = 0;      // predicted seconds; 0: not known
  std::string plan;     // its text; "": it is too long
  std::string cluster;  // the devices of the ranks
  bool operator==(const ParallelPlanChosen&) const = default;
};
struct GrowthPlanned {  // a node waits to join until that costs least
  NodeId node;
  std::string name;
  int64_t saved_step = -1;  // newest checkpoint when it joined; a newer one lets it in
  std::string reason;
};
// A user, or the master by what it measured, chose the number of nodes of the next worlds, within
// the job's limits.
struct SizeChosen {
  uint32_t nodes = 0;
  int64_t saved_step = -1;  // newest checkpoint of the job then; -1: none
  bool at_once = false;     // even if steps are then done twice
  std::string reason;
  bool is_measured = false;  // false: by a user
};
struct WaitBegan {
  std::string reason;  // the reason; shown by status
};
struct StopDecided {
  int exit_code = 0;
  Duration grace;
  std::string reason;
  bool is_asked = false;  // by a user; false: the job ended by itself
  int signal = 0;         // first signal for ranks; 0: SIGTERM
};
struct JobFinished {
  int exit_code = 0;
  std::string reason;
  int64_t step = 0;  // the last one, or if unknown the steps of the last world; 0: none is known
  int64_t step_count = 0;  // optimizer steps of the last world
  int64_t reached = 0;     // its highest step; 0: not known
};
struct WishChanged {  // a node that the platform started died before it registered: it is wished
                      // anew
  std::string name;
  uint32_t incarnation = 0;
  std::string reason;
};
// Where each task of the job runs from now on, and which ones are done. The whole picture each
// time. Empty: no task may run, because all are placed anew.
struct TasksPlaced {
  std::vector<Task> tasks;  // in the order of their ranks
  std::string reason;
};
// A user chose how many workers and table servers the job has from now on.
struct TasksScaled {
  uint32_t workers = 0;
  uint32_t servers = 0;
  std::string reason;
};
// A table server has received these partitions of another one, and has them from now on.
struct TablesMoved {
  uint32_t from = 0;
  uint32_t to = 0;
  std::vector<uint32_t> partitions;
  std::string reason;
};
// A user strikes a part of the job, so what follows from it is no fault. Recorded just before the
// strike.
struct DrillStruck {
  NodeId node;
  std::string name;
  Generation generation;
  bool has_rank = false;  // false: the whole node, or its agent
  Rank rank;              // meaningful when has_rank
  std::string kind;       // "sigkill"
  DrillLoss loss = DrillLoss::kRank;
  std::string reason;
};
// The memory of a node will soon be used up, or a rank was killed for want of it. What is done
// about it: the node may use `next_limit` bytes from now on, or, if that is 0, it is only told, and
// the next step goes to storage at once.
struct MemoryShort {
  NodeId node;
  std::string name;
  Generation generation;
  NodeMemory memory;
  uint64_t next_limit = 0;  // 0: the limit stays
  Duration left;            // until the limit is reached
  double grows = 0;         // bytes a second; 0: not known
  bool is_kill = false;     // the kernel has killed a rank at that limit
  int64_t saved_step = -1;  // newest checkpoint of the job then
  std::string reason;
};
struct JobResumed {  // a user started the ended job again
  std::string reason;
  bool anew = false;  // it had failed or was stopped: failures are counted anew
};

using Fact =
    std::variant<JobCreated, MasterTookOver, NodeJoined, NodeLost, NodeLeft, NodeEvicted,
                 RankFailed, RecoveryDecided, WorldFormed, WorldRunning, WorldEnded, SoloRestarted,
                 ProgressMade, GrowthPlanned, WaitBegan, StopDecided, JobFinished, RestoreDecided,
                 CheckpointCommitted, CheckpointDamaged, CheckpointNotStored, JobResumed,
                 HangJudged, WishChanged, NodeNoticed, PastRemembered, RankSlow, RankNoLongerSlow,
                 LossWentBad, ModelDescribed, ParallelPlanChosen, AgentReturned, HangEnded,
                 SizeChosen, TasksPlaced, NodeChecked, TasksScaled, TablesMoved, NodeCheckOrdered,
                 DrillStruck, TimeAccounted, PairsJudged, MemoryShort>;

struct Record {
  RecordSeq seq;                  // dense, from 1
  Instant at;                     // master's clock: ns since the Unix epoch, never going back
  std::vector<RecordSeq> causes;  // records that caused this one, oldest first
  Fact fact;
};

std::string_view FactName(const Fact& fact);  // "rank_failed", … as in `paceline events`
std::string Sentence(const Record& record);   // the sentence for consoles, logs and pages

}  // namespace paceline::core
