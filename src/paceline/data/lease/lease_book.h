#pragma once

// All leases of a job: which worker has which part of which data set. A pure machine between the
// frames of workers (model/lease_frame.h) and facts that its host makes durable.
//
//   Handle, PeerGone, LinkBroken, Tick    events in; facts and answers out
//   Restore                               folds a fact of the journal, in order
//   NextDeadline                          when to call Tick
//
// Every ordinal counts once, by its durable ack. An answer that promises something is sent when all
// facts before it are durable. Grants promise nothing and are sent at once. So a dead master loses
// only leases and unconfirmed acks. Their holders present them to the next master, which knows from
// the journal how much of each lease was done.
//
// Data sets that follow checkpoints are rewound with them. Every rank *marks* a checkpoint's step
// when it saves. Acks before a rank's mark belong to the position of that step, later ones do not
// (the cut of Chandy and Lamport, 1985, with acks as messages). A new generation continues from the
// position in its checkpoint, or from the beginning if it restores none. Other data sets continue
// from the acknowledged ordinals.
//
// Ranks that save the same steps need a common last step. So each rank of an *even* data set gets
// the same number of ordinals. The remainder, fewer ordinals than ranks, goes to no rank: a rank
// that worked on it would wait in a collective for ranks without work.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/data/agreements.h"
#include "paceline/data/lease/blame.h"
#include "paceline/data/lease/interval_set.h"
#include "paceline/data/lease/lease_peer.h"
#include "paceline/data/lease/lease_stream.h"
#include "paceline/data/lease/shard_ledger.h"
#include "paceline/model/lease_frame.h"

namespace paceline {

// A fact that becomes durable, in order. A closed set; the journal's file has these numbers.
struct LeaseFact {
  enum class Kind : uint8_t {
    kBooted = 1,  // lease: the first id that this master grants
    // set, end: ordinals, begin: 1 when it follows checkpoints, plus 2 for a stream, plus 4 when
    // it trains tables; text: name, terms
    kOpened = 2,
    kAcked = 3,        // set, worker, lease, begin, end
    kQuarantined = 4,  // set, begin, end
    kMarked = 5,       // set, worker, begin: step, end: world size
    kRewound = 6,      // set, begin: generation, end: number of the rewind; text: position
    kDone = 7,         // set, begin, end; in a summary only
    kPosition = 8,     // set; text: name, ranges; in a summary only
    kCommitted = 9,    // begin: step of a checkpoint in storage
    kCut = 10,         // set, begin: step, end: world size; text: ranks, ranges; in a summary only
    kBlamed = 11,      // set, begin, end, lease: failures; text: BlameToText
    kFound = 12,  // set, begin, end: ordinals of a stream's next partition, lease: base; text: name
    // set, worker, begin, end: records of a stream that nobody trains on; lease: 0 if retention has
    // eaten them, 1 if decode refused them; text: why
    kGap = 13,
    // set, lease: ids below are of ended leases, end: ordinals that are free again; text: ranges
    // that stay done
    kUndone = 14,
  };
  Kind kind = Kind::kBooted;
  uint32_t set = 0;
  WorkerKey worker = {};
  uint64_t lease = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string text = {};
  bool operator==(const LeaseFact&) const = default;
};

// A kBlamed without its set.
LeaseFact FactOf(const Blamed& blamed);

struct LeaseActions {
  std::vector<LeaseFact> facts;
  std::vector<LeaseAnswer> answers;
};

// The state of a data set, for people.
struct DataSetView {
  std::string name;
  std::string terms;
  uint64_t ordinals = 0;
  uint64_t done = 0;
  uint64_t open_leases = 0;
  uint64_t leased = 0;  // ordinals
  uint64_t workers = 0;
  bool follows_checkpoints = false;
  bool is_complete = false;
  std::vector<OrdinalRange> quarantined;
  // Of a stream. Its quarantine has the records that decode refused.
  bool is_stream = false;
  std::vector<PartitionView> partitions = {};
  uint64_t gaps = 0;                      // records
  std::vector<std::string> reasons = {};  // of the newest refused records
};

// "0-99,120-300": ranges with both ends; the first ones, as many as fit in `bytes_max`.
std::string RangesToText(const std::vector<OrdinalRange>& ranges,
                         size_t bytes_max = std::string::npos);
std::optional<std::vector<OrdinalRange>> RangesFromText(std::string_view text);

class LeaseBook {
 public:
  // Processes of a broken link keep their leases this long: their agent may come back.
  static constexpr Duration kLinkPatience = Duration::Seconds(1);
  static constexpr size_t kDataSetsMax = 256;
  static constexpr size_t kSessionsMax = 65'536;
  static constexpr size_t kRequestsMax = 1'024;  // of a process, waiting for a lease
  static constexpr size_t kPositionsMax = 16;    // the newest, besides those in storage
  static constexpr size_t kCommittedMax = 256;
  static constexpr size_t kProgressMax = 2'048;      // leases of a worker whose progress is kept
  static constexpr size_t kHaveBytesMax = 64 << 20;  // of what a table server has

  // `job` is part of the positions' names, so that two jobs have different ones.
  explicit LeaseBook(std::string job = "") : job_(std::move(job)) {}

  // Called before the first event.
  void Restore(const LeaseFact& fact);
  // Instead of Restore, for a fact before the summary: restores the progress of leases that may be
  // presented.
  void RestoreProgress(const LeaseFact& fact);
  // Ends the restore. New leases have this id or a higher one.
  void Boot(uint64_t first_lease, LeaseActions* actions);

  void Handle(Instant now, const LeasePeer& from, const LeaseFrame& frame, LeaseActions* actions);
  // The process has ended. `is_blamed`: it died by itself, so its current work is suspicious.
  void PeerGone(Instant now, const LeasePeer& peer, bool is_blamed, LeaseActions* actions);
  // Its processes may still live. Their leases wait for them for `patience`.
  void LinkBroken(Instant now, uint64_t link, Duration patience);
  // Whether this process works on a data set that follows checkpoints and lacks this position.
  bool Lacks(const LeasePeer& from, const std::string& position) const;
  // Takes the position of the same data set from another job's book. False: it is unknown there, or
  // the data differ.
  bool Adopt(const LeasePeer& from, const std::string& position, const LeaseBook& other,
             LeaseActions* actions);
  bool Adopt(const LeasePeer& from, const std::string& position,
             const std::vector<OrdinalRange>& done, LeaseActions* actions);
  // Of a stream: `done` has the ordinals of `partitions`.
  bool Adopt(const LeasePeer& from, const std::string& position,
             const std::vector<OrdinalRange>& done, const std::vector<Partition>& partitions,
             LeaseActions* actions);
  // The done ranges of a position, then the partitions of a stream, a line each; "" if it is not
  // known. PartitionsFromText reads the lines after the first one.
  std::string PositionText(const std::string& position) const;
  // The job in a position's name.
  static std::string JobOf(const std::string& position);
  // A checkpoint of that step is in storage, so its positions are kept longer.
  void Committed(uint64_t step, LeaseActions* actions);
  void Tick(Instant now, LeaseActions* actions);
  Instant NextDeadline() const;

  // Facts that restore the durable state. Older facts are not needed any more.
  std::vector<LeaseFact> Summary() const;
  std::vector<DataSetView> Views() const;
  bool IsDone(uint32_t set, uint64_t ordinal) const;
  bool FollowsCheckpoints(uint32_t set) const;
  // Higher than every lease id granted before the restore.
  uint64_t first_lease() const { return first_lease_; }
  // A violated invariant, or ""; for tests and simulators.
  std::string Broken() const;

 private:
  // Identifies a rewind: the generation, and how often it has been rewound.
  struct Lineage {
    uint64_t generation = 0;
    uint64_t number = 0;
    auto operator<=>(const Lineage&) const = default;
  };
  struct Cut {  // a position that not all ranks have marked yet
    uint64_t world_size = 1;
    std::set<uint64_t> marked;  // ranks
    IntervalSet done;
  };
  struct DataSet {
    uint32_t number = 0;
    std::string job;
    std::string name;
    std::string terms;
    LedgerSpec spec;
    bool follows_checkpoints = false;
    bool is_stream = false;
    LeaseStream stream;    // its partitions
    bool is_even = false;  // its ranks get equally many ordinals
    bool trains_tables = false;
    // Ids below are of leases that a lost table server has ended. Each loss makes it higher.
    uint64_t ended_leases = 0;
    // For even sets: ordinals granted to each rank since the rewind, without returned ones. Not
    // durable: each rank reports its number when it opens. In a fresh lineage all are known.
    std::map<uint64_t, uint64_t> granted;
    bool is_fresh = false;
    std::optional<uint64_t> share;  // of each rank, once a rank has got its full share
    Lineage lineage;
    std::optional<ShardLedger> ledger;  // none while the journal is folded
    IntervalSet done;                   // used until there is a ledger
    IntervalSet quarantined;            // used until there is a ledger
    BlameBook blamed;                   // used until there is a ledger
    uint64_t first_lease = 1;
    uint64_t generation = 0;  // the newest seen
    std::map<uint64_t, Cut> cuts;
    std::map<std::string, IntervalSet> positions;
    std::deque<std::string> position_order;  // the oldest first
    // By worker: the progress of leases. Presented leases are compared with it.
    std::map<WorkerKey, std::map<uint64_t, uint64_t>> progress;
    std::set<LeasePeer> sessions;
    std::set<LeasePeer> waiting;  // sessions with unanswered requests

    void Note(const LeaseFact& acked);
    // Ordinals of the lease below this are done, as far as is remembered; 0: none.
    uint64_t DoneOf(const WorkerKey& worker, uint64_t lease) const;
    std::string PositionOf(uint64_t step) const;
    void View(const IntervalSet& finished, DataSetView* view) const;  // of a stream
  };
  using Ranges = std::vector<OrdinalRange>;
  struct Session {
    uint32_t set = 0;
    WorkerKey worker;
    uint64_t rank = 0;
    uint64_t world_size = 1;
    Lineage lineage;
    struct Request {
      uint64_t number = 0;
      bool is_told = false;  // was told to wait
    };
    std::deque<Request> requests;
    uint64_t acked = 0;     // acks, to compare two marks of one step
    bool has_lost = false;  // some of its work did not count, so it marks no more
    std::map<uint64_t, uint64_t> acked_at_mark;  // by step
    // Leases presented since it opened. None once it takes a lease: then all were presented.
    std::optional<std::set<uint64_t>> presented;
    std::optional<Instant> lost_until;  // set while its link is broken
    std::set<uint64_t> recalled;        // leases of a stream that it was asked to return
  };
  class Turn;

  void Open(DataSet* set) const;
  void Apply(const LeaseFact& fact);
  void ApplyOpened(const LeaseFact& fact);
  void ApplyAcked(const LeaseFact& fact, DataSet* set);
  void ApplyFound(const LeaseFact& fact, DataSet* set);
  void ApplyMarked(const LeaseFact& fact, DataSet* set);
  void ApplyRewound(const LeaseFact& fact, DataSet* set);
  void ApplyUndone(const LeaseFact& fact, DataSet* set);
  void KeepPosition(const std::string& name, IntervalSet done, DataSet* set);
  void Trim(DataSet* set);

  std::string job_;
  std::map<uint32_t, DataSet> sets_;
  std::map<std::string, uint32_t> by_name_;
  std::map<LeasePeer, Session> sessions_;
  Agreements agreements_;
  std::map<LeasePeer, std::string> having_;  // by table server: what it has told so far
  std::set<uint64_t> committed_;             // steps
  uint64_t first_lease_ = 1;
  uint64_t facts_ = 0;  // counted over all events
};

}  // namespace paceline
