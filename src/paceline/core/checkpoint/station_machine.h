#pragma once

// A node's part in checkpoints, as a pure machine: which ranks it accepts, what it reports to the
// master and when, and how it executes orders. The ledger (ledger.h) decides what is
// saved and restored; this machine makes one host do it.
//
// Its host (agent/memory/checkpoint_station.h, and the simulated node) moves the bytes: it owns the
// arenas, the ranks' connections and a worker for storage. It supplies events and executes the
// actions in order.
//
//   report   The node's whole state. Urgent news is sent at once, the rest as often as a heartbeat.
//            Until the node has looked at storage, the report names no generation, so nothing is
//            decided yet. If the look fails for ten seconds, it names one and says that it saw
//            nothing.
//   order    The whole order. A missing part is forgotten, so that the same part, given again, is
//            a new attempt.
//   restore  A rank is answered when its sources are ready: copies from other hosts and files of an
//            object store are fetched first. Files that hosts read together are read in chunks.
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

// A rank's connection to its station. Numbers are not reused.
using StationPeer = uint64_t;

struct StationSetup {
  std::string node;
  Duration report_every;    // for reports that are not urgent
  bool is_private = false;  // serves a single rank, whose terms may change from run to run
};

// ---- what happened on the host ----

// The ranks of that world run here; no rank of an older world lives.
struct GenerationCarriedOut {
  Generation generation;
};
// A rank has closed its Checkpointer. Its process may live on.
struct RankFinished {
  StationPeer peer = 0;
};
// The last look at storage may be outdated.
struct LookExpired {};
// Images can be exchanged with other hosts.
struct PeersOpened {
  std::string address;  // HOST:PORT
  std::string domain;   // failure domain
};
struct StationLinked {};  // a master is connected: report everything
struct CheckpointOrdered {
  CheckpointOrder order;
};
// The rank was accepted (see Refuses), and its arena exists.
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
  // The rank's last save in this world, if any. It is newer than the step that the world restored.
  std::optional<SavedStep> after = {};
};
struct DurabilityAsked {  // of a save of the rank's world
  StationPeer peer = 0;
  int64_t step = -1;
  uint64_t branch = 0;
  bool is_closing = false;  // the rank has done its work, so it waits for long
};
struct ReplicaAsked {  // of a save of the rank's world, on a second host
  StationPeer peer = 0;
  int64_t step = -1;
  uint64_t branch = 0;
};
struct WaitWithdrawn {  // the rank does not wait any more
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
// All fetched images of this host, after each FetchImages and after each change.
struct CopiesSeen {
  std::set<std::pair<Rank, SavedStep>> here;
  std::vector<FetchFailure> failed;  // of the current orders
};
// The end of a FetchStored.
struct StoredFetched {
  enum class End { kDone, kAway, kDamaged, kRefused };  // kRefused: by this host, as a full disk
  StationPeer peer = 0;
  std::string name;
  End end = End::kDone;
  std::string problem;
  bool was_here = false;  // storage was not read
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
  bool is_passed = false;           // for a problem: storage has what another master committed
};
struct StorageLooked {
  std::optional<StoredCheckpoint> stored;
  std::string problem;      // storage could not be read; empty: it was
  bool is_refused = false;  // it refuses these credentials, or there is no such place
  // For a problem: a newer version wrote the newest checkpoint, so the job must not continue.
  bool is_newer = false;
};
// IsReportDue, or a report is wanted now. `images` of all arenas of this host, then those on its
// disk.
struct ReportDue {
  std::vector<MemoryImage> images;
};
struct StationTimePassed {};  // the deadline has passed, and no report is due

using StationEvent =
    std::variant<GenerationCarriedOut, LookExpired, RankFinished, PeersOpened, StationLinked,
                 CheckpointOrdered, RankOpened, RankClosed, ArenaReady, ImageSealed, RestoreAsked,
                 DurabilityAsked, ReplicaAsked, WaitWithdrawn, CheckpointFoundDamaged,
                 ImageFoundDamaged, ImagesChanged, CopiesSeen, StoredFetched, ShardEnded,
                 CommitEnded, StorageLooked, ReportDue, StationTimePassed>;

// ---- actions for the host ----

struct SendReport {
  CheckpointReport report;
};
struct AnswerRestore {
  StationPeer peer = 0;
  RestoreOrder order;                       // without its sources
  std::vector<RestoreOrder::Image> images;  // for this rank; none: it reads storage by itself
  bool is_fetched = false;                  // its files of storage are on this host's disk
  bool is_shared = false;  // its files are read in chunks: several hosts share the reading
};
struct AnswerDurable {
  StationPeer peer = 0;
  SavedStep durable;
};
struct AnswerReplicated {
  StationPeer peer = 0;
  SavedStep replicated;
};
// Answers a WaitWithdrawn. No answer to the withdrawn request follows.
struct AnswerWithdrawn {
  StationPeer peer = 0;
};
// Says why the answer takes long. The answer follows.
struct AnswerNotice {
  StationPeer peer = 0;
  std::string text;
};
// A problem in three parts; the rank adds the fourth, where.
struct AnswerProblem {
  StationPeer peer = 0;
  std::string what;
  std::string why;
  std::string fix;
  std::string where = {};  // empty: the directory of the checkpoints
  bool is_final = false;   // no restart of the rank can mend it
};
// For one rank of this node. No save: nothing must stay.
struct SetHold {
  uint32_t rank = 0;
  std::optional<SavedStep> from;
};
struct ClearHolds {};  // for all arenas of this node: processes of an older world are gone
// Which of this node's own images stay, if there are slots. No others stay: a copy is useful only
// with the other ranks' images of the same step.
struct KeepImages {
  std::optional<SavedStep> copied;   // the newest step that has all its copies
  std::optional<SavedStep> copying;  // the next one
  // One slot is always needed for the next save, and the newest image stays anyway.
  bool Keeps(SavedStep saved, uint32_t slots) const {
    return (saved == copied && slots >= 4) || (saved == copying && slots >= 3);
  }
};
// Claim that image and write it; ShardEnded reports the result. If it is neither in memory nor on
// this host's disk, the problem is NotHeld.
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
// Find the newest complete checkpoint, except these. StorageLooked is the answer.
struct LookInStorage {
  std::string directory;
  std::set<std::string> except;
};
// All copies that this host must have, and with `drop_others` no more; CopiesSeen follows.
struct FetchImages {
  std::vector<FetchOrder> orders;
  bool drop_others = false;
  std::string directory;  // of checkpoints in storage, for orders with storage as a source
};
struct DropCopy {
  uint32_t rank = 0;
};
// Fetch files of a checkpoint to this host's disk, if the store has no paths; StoredFetched
// follows.
struct FetchStored {
  StationPeer peer = 0;  // the rank that asked
  std::string directory;
  std::string name;
  std::set<uint32_t> ranks;  // whose; empty: all
  StoredPart part = StoredPart::kAll;
};
// Serve chunks of storage to ranks and other hosts; these nodes share the reading. None: stop, and
// drop the cache.
struct ShareReading {
  std::vector<StorageReader> readers;
  std::string directory;
};
struct EndStation {};  // the job ends, and no transfer is in progress

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

  // Why the rank must not save here. If it may, its terms become this node's.
  std::optional<AnswerProblem> Refuses(uint64_t rank, uint64_t generation,
                                       const CheckpointTerms& terms);

  Generation generation() const { return generation_; }
  bool has_ranks() const { return !peers_.empty(); }
  bool Knows(StationPeer peer) const { return peers_.contains(peer); }
  const CheckpointOrder& order() const { return order_; }
  // The script's terms; empty until a rank has reported them.
  CheckpointTerms terms() const;
  // Files that were equal when all ranks' files existed, of the newest steps.
  const std::vector<EqualFiles>& equal() const { return equal_; }
  // A rank waits for a write.
  bool IsUrgent() const;
  // The job ends, and images of this node may still have to go to storage.
  bool IsAwaited() const { return order_.is_ending && !order_.is_over; }
  static std::string NotHeld(SavedStep saved);

 private:
  struct Peer {
    uint64_t rank = 0;
    uint64_t generation = 0;
    bool wants_restore = false;
    std::string trouble;                      // the last one that it was told
    uint32_t world_size = 0;                  // of the restore; 0: all images
    bool is_fetching = false;                 // from a store without paths, …
    std::vector<RestoreOrder::Image> images;  // … only its notes, if it has these
    std::optional<SavedStep> awaited;         // in storage
    bool is_closing = false;                  // it waits for that for long
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
  std::set<uint32_t> finished_;    // ranks that will not save any more in this world
  std::vector<EqualFiles> equal_;  // of the newest steps, oldest first
  CopiesSeen copies_;
  bool are_copies_known_ = true;          // false between an order and its first CopiesSeen
  std::optional<CheckpointReport> told_;  // last report to this master
  Instant told_at_;
  Instant report_at_ = Instant::Max();
  bool is_report_urgent_ = false;
  Instant look_at_ = Instant::Max();  // next look after a failed one
  uint32_t looks_failed_ = 0;         // in a row
  bool is_looking_ = false;
  bool looks_again_ = false;           // the look in progress began too early
  Instant blind_at_ = Instant::Max();  // without a successful look by then
  bool is_blind_ = false;
  bool has_looked_ = false;
  bool has_seen_storage_ = false;
  Instant fetch_at_ = Instant::Max();  // next try, from a store that did not answer
};

}  // namespace paceline::core
