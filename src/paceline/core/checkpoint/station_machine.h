#pragma once

// A node's part in checkpoints, as a pure machine: whom of its ranks it takes, what it tells the
// master and when, and what it does about the master's orders. What is saved and restored is
// decided by the ledger (checkpoint_ledger.h); this machine makes one host do it.
//
// Its host (agent/memory/checkpoint_station.h, and the simulated node) moves the bytes: it owns the
// arenas, the ranks' connections and a worker that reads and writes storage. It feeds what happened
// and carries out the actions, in order.
//
//   report   A whole truth. News that somebody waits for goes out at once, the rest as often as a
//            heartbeat. Until storage was looked at, it names no generation: nothing is decided
//            yet. Where that fails for ten seconds it does, and says that it saw nothing.
//   order    A whole truth too. An order that is gone is forgotten, so that the same one, given
//            again, is a new attempt.
//   restore  A rank is answered when what it shall read is within its reach: copies are fetched
//            from other hosts first, files of an object store to this host's disk. What hosts share
//            the reading of, it asks for by chunks.
//
// Pure: no clock, no chance, no I/O.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"

namespace paceline::core {

// A rank's connection to its station. A number is never used again.
using StationPeer = uint64_t;

struct StationSetup {
  std::string node;
  Duration report_every;    // of what is not urgent
  bool is_private = false;  // one rank alone, which may change its mind from run to run
};

// ---- what happened on the host ----

// The ranks of that world are here, and nobody of an older one lives.
struct GenerationCarriedOut {
  Generation generation;
};
// A rank has closed its Checkpointer. Its process may live on.
struct RankFinished {
  StationPeer peer = 0;
};
// What it has seen in storage may not be true any more.
struct LookExpired {};
// Other hosts can fetch images from here, and this one from them.
struct PeersOpened {
  std::string address;  // HOST:PORT
  std::string domain;   // of failures
};
struct StationLinked {};  // a master listens from now on: tell it everything
struct CheckpointOrdered {
  CheckpointOrder order;
};
// It was not refused (see Refuses), and whatever arena it asked for is there.
struct RankOpened {
  StationPeer peer = 0;
  uint64_t rank = 0;
  uint64_t generation = 0;
};
struct RankClosed {
  StationPeer peer = 0;
};
struct ArenaReady {};  // a rank has made or opened its arena
struct ImageSealed {
  StationPeer peer = 0;
};
struct RestoreAsked {
  StationPeer peer = 0;
  uint32_t world_size = 0;  // of its world; 0: it wants the images of all ranks
  // The rank's last save in this world, if it has made one. It is newer than the step that the
  // world restored at its start.
  std::optional<SavedStep> after = {};
};
struct DurabilityAsked {  // of a save of the rank's world
  StationPeer peer = 0;
  int64_t step = -1;
  uint64_t branch = 0;
  bool is_closing = false;  // it has nothing else to do, and waits with patience
};
struct ReplicaAsked {  // of a save of the rank's world, on a second host
  StationPeer peer = 0;
  int64_t step = -1;
  uint64_t branch = 0;
};
struct WaitWithdrawn {  // the rank waits for nothing any more
  StationPeer peer = 0;
};
struct CheckpointFoundDamaged {
  std::string name;
};
struct ImageFoundDamaged {
  std::string place;
  uint32_t rank = 0;
  bool is_copy = false;
  SavedStep saved;
};
struct ImagesChanged {};  // one has left memory, or come to this host's disk
// The whole truth about what this host has fetched, after each FetchImages and whenever it changes.
struct CopiesSeen {
  std::set<std::pair<Rank, SavedStep>> here;
  std::vector<FetchFailure> failed;  // of the orders that stand
};
// The end of a FetchStored.
struct StoredFetched {
  enum class End { kDone, kAway, kDamaged, kRefused };  // kRefused: by this host, as a full disk
  StationPeer peer = 0;
  std::string name;
  End end = End::kDone;
  std::string problem;
  bool was_here = false;  // nothing came from storage
};
struct ShardEnded {
  Rank rank;
  SavedStep saved;
  std::string problem;  // empty: durable
  Duration took;
};
struct CommitEnded {
  std::string name;
  std::string problem;  // empty: done
  uint64_t bytes = 0;
  bool has_own_parameters = false;  // see CommitState
};
struct StorageLooked {
  std::optional<StoredCheckpoint> stored;
  std::string problem;      // storage could not be read; empty: it was
  bool is_refused = false;  // it lets nobody in who comes like this, or there is no such place
  // Of a problem: a newer version wrote the newest checkpoint, and to go on beside it is refused.
  bool is_newer = false;
};
// IsReportDue, or somebody wants a report now; `images` of all arenas of this host, and behind them
// those on its disk.
struct ReportDue {
  std::vector<MemoryImage> images;
};
struct StationTimePassed {};  // the deadline, and no report is due

using StationEvent =
    std::variant<GenerationCarriedOut, LookExpired, RankFinished, PeersOpened, StationLinked,
                 CheckpointOrdered, RankOpened, RankClosed, ArenaReady, ImageSealed, RestoreAsked,
                 DurabilityAsked, ReplicaAsked, WaitWithdrawn, CheckpointFoundDamaged,
                 ImageFoundDamaged, ImagesChanged, CopiesSeen, StoredFetched, ShardEnded,
                 CommitEnded, StorageLooked, ReportDue, StationTimePassed>;

// ---- what the host shall do ----

struct SendReport {
  CheckpointReport report;
};
struct AnswerRestore {
  StationPeer peer = 0;
  RestoreOrder order;                       // without its sources
  std::vector<RestoreOrder::Image> images;  // for this rank; none: it reads storage by itself
  bool is_fetched = false;                  // what it reads of storage is on this host's disk
  bool is_shared = false;  // or is asked for by chunks: several hosts share the reading
};
struct AnswerDurable {
  StationPeer peer = 0;
  SavedStep durable;
};
struct AnswerReplicated {
  StationPeer peer = 0;
  SavedStep replicated;
};
// To a WaitWithdrawn. No answer to what was withdrawn follows it.
struct AnswerWithdrawn {
  StationPeer peer = 0;
};
// No answer yet: why it takes long, for people.
struct AnswerNotice {
  StationPeer peer = 0;
  std::string text;
};
// An answer in three parts; the fourth, where, the rank knows.
struct AnswerProblem {
  StationPeer peer = 0;
  std::string what;
  std::string why;
  std::string fix;
  std::string where = {};  // empty: the directory of the checkpoints
};
// Of one rank of this node. No save: nothing has to stay.
struct SetHold {
  uint32_t rank = 0;
  std::optional<SavedStep> from;
};
struct ClearHolds {};  // of all arenas of this node: whoever wrote for an older world is gone
// Of this node's own images these stay where there are slots for it, and no others: a copy
// elsewhere is worth something only together with what all other ranks saved of the same step.
struct KeepImages {
  std::optional<SavedStep> copied;   // the newest step that has all its copies
  std::optional<SavedStep> copying;  // the next one
  // One slot is always needed to save into, and the newest image stays by itself.
  bool Keeps(SavedStep saved, uint32_t slots) const {
    return (saved == copied && slots >= 4) || (saved == copying && slots >= 3);
  }
};
// Claim that image and write it; ShardEnded says how that went. An image that is neither there any
// more nor on this host's disk cannot be claimed: then NotHeld is the problem.
struct WriteImage {
  std::string directory;
  std::string name;  // of the checkpoint
  SavedStep saved;
  PersistOrder::Shard shard;
};
struct WriteCommit {
  std::string directory;
  uint32_t keep = 3;
  PersistOrder order;
};
// What is the newest whole checkpoint there, these left out? StorageLooked is the answer.
struct LookInStorage {
  std::string directory;
  std::set<std::string> except;
};
// All copies that this host shall have, and none besides when `drop_others`; CopiesSeen follows.
struct FetchImages {
  std::vector<FetchOrder> orders;
  bool drop_others = false;
  std::string directory;  // of checkpoints in storage, for orders that name it as a source
};
struct DropCopy {
  uint32_t rank = 0;
};
// Files of a checkpoint in a store that has no paths, to this host's disk; StoredFetched follows.
struct FetchStored {
  StationPeer peer = 0;  // who asked
  std::string directory;
  std::string name;
  std::set<uint32_t> ranks;  // whose; empty: all
  StoredPart part = StoredPart::kAll;
};
// Give ranks and other hosts chunks of storage: these nodes share the reading. None: give no more,
// and keep none.
struct ShareReading {
  std::vector<StorageReader> readers;
  std::string directory;
};
struct EndStation {};  // the job ends, and nothing is on its way any more

using StationAction = std::variant<SendReport, AnswerRestore, AnswerDurable, AnswerReplicated,
                                   AnswerWithdrawn, AnswerNotice, AnswerProblem, SetHold,
                                   ClearHolds, KeepImages, WriteImage, WriteCommit, LookInStorage,
                                   FetchImages, DropCopy, FetchStored, ShareReading, EndStation>;

class StationMachine {
 public:
  explicit StationMachine(StationSetup setup) : setup_(std::move(setup)) {}

  std::vector<StationAction> Step(Instant now, const StationEvent& event);
  // When ReportDue is due, or storage is asked again.
  Instant NextDeadline() const;
  bool IsReportDue(Instant now) const { return report_at_ <= now; }

  // Why a rank may not save here, if so; else its terms are those of this node from now on.
  std::optional<AnswerProblem> Refuses(uint64_t rank, uint64_t generation,
                                       const CheckpointTerms& terms);

  Generation generation() const { return generation_; }
  bool has_ranks() const { return !peers_.empty(); }
  bool Knows(StationPeer peer) const { return peers_.contains(peer); }
  const CheckpointOrder& order() const { return order_; }
  // What the script asked for; empty as long as no rank has said it.
  CheckpointTerms terms() const;
  // Somebody waits for what is written.
  bool IsUrgent() const;
  // The job ends, and something of this node may still have to go to storage.
  bool IsAwaited() const { return order_.is_ending && !order_.is_over; }
  static std::string NotHeld(SavedStep saved);

 private:
  struct Peer {
    uint64_t rank = 0;
    uint64_t generation = 0;
    bool wants_restore = false;
    std::string trouble;                      // that it was told of
    uint32_t world_size = 0;                  // that it restores for; 0: all images
    bool is_fetching = false;                 // from a store that has no paths, …
    std::vector<RestoreOrder::Image> images;  // … its notes alone, when it has these
    std::optional<SavedStep> awaited;         // in storage
    bool is_closing = false;                  // it waits with patience for that
    std::optional<SavedStep> awaits_replica;  // on a second host
  };

  void On(const GenerationCarriedOut& event);
  void On(const LookExpired& event);
  void On(const RankFinished& event);
  void On(const PeersOpened& event);
  void On(const StationLinked& event);
  void On(const CheckpointOrdered& event);
  void On(const RankOpened& event);
  void On(const RankClosed& event);
  void On(const ArenaReady& event);
  void On(const ImageSealed& event);
  void On(const RestoreAsked& event);
  void On(const DurabilityAsked& event);
  void On(const ReplicaAsked& event);
  void On(const WaitWithdrawn& event);
  void On(const CheckpointFoundDamaged& event);
  void On(const ImageFoundDamaged& event);
  void On(const ImagesChanged& event);
  void On(const CopiesSeen& event);
  void On(const StoredFetched& event);
  void On(const ShardEnded& event);
  void On(const CommitEnded& event);
  void On(const StorageLooked& event);
  void On(const ReportDue& event);
  void On(const StationTimePassed&) {}

  void AnswerRestores();
  bool AnswerFrom(StationPeer peer, Peer* rank);
  void AnswerAgain(const RestoreAsked& event, const Peer& rank);
  bool IsReadingShared() const;
  void Fetch(StationPeer peer, Peer* rank, std::vector<RestoreOrder::Image> images);
  enum class Presence { kHere, kLater, kFailed };
  Presence PresenceOf(const RestoreOrder::Source& source) const;
  AnswerProblem Unfetched(StationPeer peer) const;
  void AnswerWaits();
  enum class Patience { kNone, kAll };
  void TellUnstored(Patience patience, const std::string& fix);
  void TellRefusal();
  void TellTrouble(StationPeer peer, Peer* rank, std::string_view what, const std::string& why);
  void TellSilence();
  void AnswerUnseen(const StorageLooked& event);
  void AnswerReplicaWaits();
  bool IsKnownDamaged(const std::string& name) const;
  void StartPersist();
  void StartCommit();
  void HoldAll();
  void NoteEqual();
  void Look();
  void ReportSoon(bool is_urgent);
  CheckpointReport MakeReport(const std::vector<MemoryImage>& images) const;

  const StationSetup setup_;
  Instant now_;
  std::vector<StationAction> actions_;
  std::map<StationPeer, Peer> peers_;
  Generation generation_;
  std::optional<CheckpointTerms> terms_;
  CheckpointOrder order_;
  std::map<uint32_t, std::optional<SavedStep>> holds_;  // by rank, as last set
  std::map<uint32_t, ShardState> shards_;               // of persisting_, by rank
  std::optional<PersistOrder> persisting_;
  std::optional<CommitState> commit_;
  std::optional<StoredCheckpoint> stored_;
  std::set<std::string> damaged_;
  std::set<std::tuple<std::string, uint32_t, bool, SavedStep>> bad_images_;
  std::optional<PeersOpened> peer_memory_;
  std::set<uint32_t> finished_;    // ranks that save no more in this world
  std::vector<EqualFiles> equal_;  // of the newest steps, oldest first
  CopiesSeen copies_;
  bool are_copies_known_ = true;          // not between an order and what has become of it
  std::optional<CheckpointReport> told_;  // to this master
  Instant told_at_;
  Instant report_at_ = Instant::Max();
  bool is_report_urgent_ = false;
  Instant look_at_ = Instant::Max();  // again, after it could not be read
  uint32_t looks_failed_ = 0;         // in a row
  bool is_looking_ = false;
  bool looks_again_ = false;           // what the look that is on its way brings is too old
  Instant blind_at_ = Instant::Max();  // no look has succeeded by then
  bool is_blind_ = false;
  bool has_looked_ = false;
  bool has_seen_storage_ = false;
  Instant fetch_at_ = Instant::Max();  // again, from a store that was away
};

}  // namespace paceline::core
