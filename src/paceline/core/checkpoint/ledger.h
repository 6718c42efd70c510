#pragma once

// Decides which saved step counts, from where a world restores, and when a step goes to storage.
//
// Every node of the world reports what its host has in memory and in storage; the ledger answers
// with facts and orders. It is pure: the master's Job has one, and so does an agent without a
// master. Durable state is in CheckpointBook, which changes only by facts.
//
//   restore   Decided once for each world, after every node has reported that no rank of an older
//             world lives there: the newest step that is complete in the hosts' memories, else the
//             newest committed one in storage, else nothing.
//   hold      A step is announced before it is due, because with a save in every step an image
//             lives for two steps only. Each rank keeps its first save from there on.
//   replicate If nothing else is being moved, the newest complete step gets copies on other hosts;
//             core/checkpoint/replication.h.
//   persist   When all ranks hold the same step, each writes its file. Equal files are written
//             once.
//   commit    When all files are durable, one node writes the manifest.
//
// No collectives and no polling: the ledger acts on reports and on the passing of time.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/book.h"
#include "paceline/core/checkpoint/last_steps.h"
#include "paceline/core/checkpoint/replication.h"
#include "paceline/core/checkpoint/restore.h"
#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/checkpoint/whole_step.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/world.h"

namespace paceline::core {

// The ledger's input beside the reports.
struct CheckpointView {
  const CheckpointBook& book;
  const World* world = nullptr;  // none between worlds
  std::string job_id;
  bool is_ending = false;      // the job stops: the newest step goes to storage now
  bool is_hurried = false;     // a node is about to leave, or the world to shrink: the next step
                               // goes to storage
  uint32_t failures = 0;       // of the job so far
  Duration age;                // of the job
  bool has_lost_past = false;  // the nodes may have images from before this master's first record
  HasEnded has_ended;          // empty: no rank has ended
  IsGone is_gone;              // empty: no node is gone
  // Members of a job that ends, or whose world has lost some, ordered by id. Some may be
  // disconnected.
  std::vector<NodeId> members = {};
  Duration storage_wait = {};  // how long an end, or a closing rank, waits for storage

  // True if copies count like images of ranks that do not save any more.
  bool TakesWhatIsLeft() const { return is_ending || is_gone != nullptr; }
};

// Pause after the first failed try to store a step. It doubles up to this many times.
inline constexpr Duration kPersistRetryMin = Duration::Seconds(2);
inline constexpr uint32_t kPersistDoublingsMax = 8;

class CheckpointLedger {
 public:
  void Report(NodeId node, CheckpointReport report);
  bool has_reports() const { return !memories_.reports.empty(); }
  // The node has no orders yet.
  void Greet(NodeId node) { newcomers_.push_back(node); }
  // The node's connection broke, so its images may be gone.
  void Forget(NodeId node);

  // Whether Next() may have a fact. Next() looks at every image of the job. Called for each message
  // of thousands of nodes it would use more than one core. So reports count only when `is_calm`: no
  // other event waits.
  bool IsDue(Instant now, const CheckpointView& view, bool is_calm) const;
  // Reports wait until it is calm.
  bool has_news() const { return has_news_; }
  // The next fact that is due; call again until there is none. `said` gets messages for people
  // about failures that change no fact.
  std::optional<CheckpointFact> Next(Instant now, const CheckpointView& view,
                                     std::vector<std::string>* said);

  // The node's current order.
  CheckpointOrder OrderFor(NodeId node, const CheckpointView& view) const;
  // Whether an order may have changed since the last call.
  bool TakeChanged();
  // Nodes that need their order although none has changed. Telling all nodes for each of thousands
  // that come at once would take minutes.
  std::vector<NodeId> TakeNewcomers() { return std::exchange(newcomers_, {}); }

  Instant NextDeadline() const;
  // True if the job ends and no step can reach storage any more. It stays true, because the nodes
  // then free their memory.
  bool is_over() const { return is_over_; }
  const std::optional<CheckpointTerms>& terms() const { return terms_; }
  // The newest step that every rank of the world has in memory. If the job ends, the newest
  // complete one of any world.
  std::optional<SavedStep> newest_in_memory() const { return complete_; }
  // As above, but for a job that ends it includes a step of which a lost host had a part.
  std::optional<SavedStep> newest_saved() const { return std::max(complete_, lost_at_end_); }
  // Whether these nodes have reported all images of that step, copies included.
  bool IsWhole(const std::vector<NodeId>& nodes, SavedStep saved) const {
    return !WritersLeft(nodes, memories_, saved).empty();
  }
  // The newest step whose images all have copies on other hosts.
  std::optional<SavedStep> replicated() const { return replication_.newest(); }
  // When the newest step was saved that the job can restore without that node's memory. Steps in
  // memory only.
  std::optional<Instant> SavedAtWithout(NodeId node, const World& world) const;
  // Nodes that come to the next world with nothing, and nodes whose memory is gone then.
  struct Move {
    std::vector<NodeId> joiners;
    std::vector<NodeId> leavers;
  };
  // True if a step has just become complete in memory, and `world` can restore it after the move.
  bool CanMoveTo(const World& world, const Move& move, Instant now) const;
  // When the newest step was saved that `world` can restore from memory after the move.
  std::optional<Instant> SavedFor(const World& world, const Move& move) const;
  // The newest checkpoint in storage, as the nodes saw it when they last looked.
  std::optional<StoredCheckpoint> newest_seen(const CheckpointBook& book) const {
    return NewestStored(book, memories_);
  }
  // The step that is being written to storage.
  std::optional<SavedStep> persisting() const {
    return persist_.has_value() ? std::optional(persist_->order.saved) : std::nullopt;
  }
  // Why the last due step is not in storage; empty if it is, or if none was due.
  const std::string& problem() const { return problem_; }

 private:
  struct Persist {
    PersistOrder order;                  // including all ranks' shards
    std::map<uint32_t, NodeId> node_of;  // by rank
    Instant since;
    bool is_held = false;  // it was announced; false: a rank waits for it
    bool is_committing = false;
    NodeId committer;
  };

  std::optional<CheckpointFact> NextFact(Instant now, const CheckpointView& view,
                                         std::vector<std::string>* said);
  std::optional<CheckpointFact> NextRestore(const CheckpointView& view);
  void Plan(const RestoreDecided& decided, const World& world);
  std::optional<SavedStep> WorthReplicating() const;
  bool HasHeardAll(const World& world) const;
  void LearnTerms(const CheckpointView& view);
  bool IsFlushing(const CheckpointView& view) const;
  bool IsNewestNotStored(const CheckpointView& view) const;
  void SettleEnd(const CheckpointView& view);
  bool IsAwaitedWithPatience(const CheckpointView& view) const;
  std::optional<CheckpointFact> NextRefusal(Instant now, const CheckpointView& view);
  bool HasLostWriter(const CheckpointView& view) const;
  std::optional<SavedStep> HeldByAll(const World& world) const;
  SavedStep NewestSaved(const World& world) const;
  void PlanHold(Instant now, const CheckpointView& view);
  // The ranks heard of a hold `branches` branches too late, so the next hold is announced earlier.
  void AnnounceEarlier(uint64_t branches);
  SavedStep Ahead(SavedStep newest) const;  // a hold that should reach all ranks in time
  void StartPersist(Instant now, const CheckpointView& view, SavedStep saved);
  std::optional<CheckpointFact> BeginPersist(Instant now, const CheckpointView& view,
                                             SavedStep saved, std::vector<std::string>* said);
  std::optional<CheckpointFact> WatchPersist(Instant now, const CheckpointView& view,
                                             std::vector<std::string>* said);
  bool NoteShardProblem(Instant now, const CheckpointView& view, std::vector<std::string>* said);
  std::set<uint32_t> NotDurable() const;  // ranks in persist_
  std::optional<CheckpointFact> WatchCommit(Instant now, const CheckpointView& view,
                                            std::vector<std::string>* said);
  enum class Fault { kStorage, kMemory };  // why a step was not stored
  void GiveUp(Instant now, const std::string& why, Fault fault, std::vector<std::string>* said);
  Duration Interval(const CheckpointView& view) const;
  Instant DueAfter(const CheckpointView& view) const;
  void NoteFormerMaster(const CheckpointBook& book);
  bool HasSaved(const World& world) const;
  void NoteWhole(Instant now);
  // The newest step that was complete in memory and is so no more; none if a newer one is.
  std::optional<SavedStep> NewestLost(const CheckpointBook& book) const;
  Memories MemoriesAfter(const Move& move) const;

  Memories memories_;
  std::optional<CheckpointTerms> terms_;
  std::optional<SavedStep> complete_;
  // Steps that became complete in memory, and when; oldest first, a few.
  std::vector<std::pair<SavedStep, Instant>> whole_since_;
  std::optional<SavedStep> lost_at_end_;  // at the end: was complete, then a host was lost
  std::optional<SavedStep> hold_;
  Instant hold_at_;     // when it was announced
  int64_t margin_ = 1;  // steps between the announcement of a hold and the held step
  // The same in branches, if branches are shorter than the way of an order; else 0.
  uint64_t branch_margin_ = 0;
  SavedStep last_;  // the newest step that was stored or restored
  Instant due_at_;  // of the next persist by time; after a failure, of the next try
  std::optional<Instant> first_save_at_;  // of the job, or of its first world: see NoteFormerMaster
  Generation planned_for_;                // world for which due_at_ and last_step_ were set
  Duration persist_took_ = Duration::Seconds(1);
  uint32_t failures_in_a_row_ = 0;
  std::string problem_;               // of the last failure; empty after a success
  std::optional<SavedStep> refused_;  // by storage, and not examined yet
  StorageWait storage_wait_;
  std::optional<Persist> persist_;
  Generation plan_for_;
  RestorePlan plan_;  // of that world's restore
  Replication replication_;
  LastSteps last_steps_;
  bool was_ending_ = false;
  bool is_over_ = false;
  bool has_changed_ = false;
  std::vector<NodeId> newcomers_;
  bool has_news_ = false;   // since the last Next()
  bool goes_on_ = false;    // the last Next() returned a fact
  Instant looked_at_;       // time of the last Next()
  Generation looked_for_;   // its world
  size_t looked_with_ = 0;  // its number of members
};

}  // namespace paceline::core
