#pragma once

// All leases of a job: who works on which part of which data set, as a pure machine between the
// frames of its workers (model/lease_frame.h) and facts that its host makes durable.
//
//   Handle, PeerGone, LinkBroken, Tick    events in; facts and answers out
//   Restore                               folds a fact of the journal, in order
//   NextDeadline                          when to call Tick
//
// Every ordinal is counted once: by the ack that is durable. An answer that promises something is
// sent when all facts before it are durable; grants promise nothing and go at once. So a master
// that dies forgets leases and acks that it had not confirmed, and no more: their holders present
// them to the next one, which knows from the journal how much of each lease was done.
//
// Data sets that follow checkpoints are rewound with them. A checkpoint's step is *marked* by every
// rank when it saves it; what a rank acknowledged before its mark belongs to the position of that
// step, what came later does not (the cut of Chandy and Lamport, 1985, with acks as messages). A
// new generation goes on from the position that its checkpoint names, and from the beginning when
// it restores none. Data sets that do not follow them go on from what was acknowledged.
//
// Ranks that save the same steps have a common last step. So each rank of an *even* data set gets
// the same number of ordinals, and what is left, fewer than there are ranks, nobody gets: a rank
// that waited for it would wait for others, which wait for that rank in a collective.

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
#include "paceline/data/lease/shard_ledger.h"
#include "paceline/model/lease_frame.h"

namespace paceline {

// What becomes durable, in order. A closed set; numbers are those of the journal's file.
struct LeaseFact {
  enum class Kind : uint8_t {
    kBooted = 1,  // lease: the first id that this master gives out
    kOpened = 2,  // set, end: ordinals, begin: 1 when it follows checkpoints; text: name, terms
    kAcked = 3,   // set, worker, lease, begin, end
    kQuarantined = 4,  // set, begin, end
    kMarked = 5,       // set, worker, begin: step, end: world size
    kRewound = 6,      // set, begin: generation, end: number of the rewind; text: position
    kDone = 7,         // set, begin, end; of a summary alone
    kPosition = 8,     // set; text: name, ranges; of a summary alone
    kCommitted = 9,    // begin: step of a checkpoint that is in storage
    kCut = 10,         // set, begin: step, end: world size; text: ranks, ranges; of a summary alone
    kBlamed = 11,      // set, begin, end, lease: failures; text: BlameToText
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

// A kBlamed but for its set.
LeaseFact FactOf(const Blamed& blamed);

struct LeaseActions {
  std::vector<LeaseFact> facts;
  std::vector<LeaseAnswer> answers;
};

// How a data set stands; for people.
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
};

// "0-99,120-300": ranges with both ends.
std::string RangesToText(const std::vector<OrdinalRange>& ranges);
std::optional<std::vector<OrdinalRange>> RangesFromText(std::string_view text);

class LeaseBook {
 public:
  // Of a broken link's processes: their agent may be back by then.
  static constexpr Duration kLinkPatience = Duration::Seconds(1);
  static constexpr size_t kDataSetsMax = 256;
  static constexpr size_t kSessionsMax = 65'536;
  static constexpr size_t kRequestsMax = 1'024;  // of a process, waiting for something to do
  static constexpr size_t kPositionsMax = 16;    // the newest, and as many as are in storage
  static constexpr size_t kCommittedMax = 256;
  static constexpr size_t kProgressMax = 2'048;  // leases of a worker whose end is remembered

  // `job`: part of the names of its positions, so that those of two jobs differ.
  explicit LeaseBook(std::string job = "") : job_(std::move(job)) {}

  // Before the first event.
  void Restore(const LeaseFact& fact);
  // Instead, for a fact before the summary: how far leases were done that may be presented.
  void RestoreProgress(const LeaseFact& fact);
  // Ends the restore. Every lease given out from now on has this id or a higher one.
  void Boot(uint64_t first_lease, LeaseActions* actions);

  void Handle(Instant now, const LeasePeer& from, const LeaseFrame& frame, LeaseActions* actions);
  // The process has ended; `is_blamed`: by itself, so that what it worked on is suspicious.
  void PeerGone(Instant now, const LeasePeer& peer, bool is_blamed, LeaseActions* actions);
  // Its processes may still live. `patience`: how long their leases wait for them.
  void LinkBroken(Instant now, uint64_t link, Duration patience);
  // Whether this process works on a data set that follows checkpoints and has no such position.
  bool Lacks(const LeasePeer& from, const std::string& position) const;
  // What was done at that position of the same data set by another job; false: it is not known
  // there, or the data are others.
  bool Adopt(const LeasePeer& from, const std::string& position, const LeaseBook& other,
             LeaseActions* actions);
  bool Adopt(const LeasePeer& from, const std::string& position,
             const std::vector<OrdinalRange>& done, LeaseActions* actions);
  // The job in a position's name.
  static std::string JobOf(const std::string& position);
  // A checkpoint of that step is in storage: its positions are kept longer.
  void Committed(uint64_t step, LeaseActions* actions);
  void Tick(Instant now, LeaseActions* actions);
  Instant NextDeadline() const;

  // Facts that restore this state but for what is volatile; what they replace is history.
  std::vector<LeaseFact> Summary() const;
  std::vector<DataSetView> Views() const;
  bool IsDone(uint32_t set, uint64_t ordinal) const;
  // Above every id of a lease that was given out before the restore.
  uint64_t first_lease() const { return first_lease_; }
  // What is wrong with it; for tests and simulators.
  std::string Broken() const;

 private:
  // Of which rewind somebody speaks: the generation, and how often it has been rewound.
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
    bool is_even = false;  // its ranks get equally many ordinals
    // Of even ones: ordinals that each rank was granted since the rewind and did not give back. Not
    // durable, because each rank says it when it opens. All of a fresh lineage are known.
    std::map<uint64_t, uint64_t> granted;
    bool is_fresh = false;
    std::optional<uint64_t> share;  // of each rank, once one of them has got all of it
    Lineage lineage;
    std::optional<ShardLedger> ledger;  // none while the journal is folded
    IntervalSet done;                   // in its place then
    IntervalSet quarantined;            // as it was told
    BlameBook blamed;                   // the same
    uint64_t first_lease = 1;
    uint64_t generation = 0;  // the newest that was heard of
    std::map<uint64_t, Cut> cuts;
    std::map<std::string, IntervalSet> positions;
    std::deque<std::string> position_order;  // the oldest first
    // How far leases were done, by worker; what the holders present is compared with it.
    std::map<WorkerKey, std::map<uint64_t, uint64_t>> progress;
    std::set<LeasePeer> sessions;
    std::set<LeasePeer> waiting;  // sessions with requests that got nothing yet

    void Note(const LeaseFact& acked);
    // Of its lease everything below is done, as far as that is remembered; 0: nothing is.
    uint64_t DoneOf(const WorkerKey& worker, uint64_t lease) const;
    std::string PositionOf(uint64_t step) const;
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
      bool is_told = false;  // that it has to wait
    };
    std::deque<Request> requests;
    uint64_t acked = 0;                          // acks, to compare two marks of one step
    bool has_lost = false;                       // work of it did not count, and it marks no more
    std::map<uint64_t, uint64_t> acked_at_mark;  // by step
    // Since it opened; complete, and none any more, when it takes something.
    std::optional<std::set<uint64_t>> presented;
    std::optional<Instant> lost_until;  // its link is broken
  };
  class Turn;

  void Open(DataSet* set) const;
  void Apply(const LeaseFact& fact);
  void ApplyOpened(const LeaseFact& fact);
  void ApplyAcked(const LeaseFact& fact, DataSet* set);
  void ApplyMarked(const LeaseFact& fact, DataSet* set);
  void ApplyRewound(const LeaseFact& fact, DataSet* set);
  void KeepPosition(const std::string& name, IntervalSet done, DataSet* set);
  void Trim(DataSet* set);

  std::string job_;
  std::map<uint32_t, DataSet> sets_;
  std::map<std::string, uint32_t> by_name_;
  std::map<LeasePeer, Session> sessions_;
  Agreements agreements_;
  std::set<uint64_t> committed_;  // steps
  uint64_t first_lease_ = 1;
  uint64_t facts_ = 0;  // of events so far
};

}  // namespace paceline
