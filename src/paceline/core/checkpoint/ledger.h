#pragma once

// Which saved step counts, where a world takes its state from, and what goes to storage when.
//
// The ledger hears from every node of the world what its host has in memory and in storage, and
// answers with facts and orders. It is pure: the master's Job holds one, and so does an agent that
// has no master. What must outlast its host is in CheckpointBook, which changes by facts alone.
//
//   restore   Decided once for each world, after every node has said that nobody of an older world
//             lives there: the newest step that every rank finds whole in its host's memory, else
//             the newest committed one in storage, else nothing.
//   hold      Before a step is due it is announced, because with a save in every step an image
//             lives for two steps only. Each rank keeps its first save from there on.
//   replicate While nothing else is on the way, the newest whole step gets copies on other hosts;
//             core/checkpoint/replication.h.
//   persist   When all ranks hold the same step, each writes its file; equal files are written
//   once. commit    When all of them are durable, one node writes the manifest.
//
// No collective, no poll: a report or the passing of time moves it on.

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

// What the ledger looks at beside what it heard.
struct CheckpointView {
  const CheckpointBook& book;
  const World* world = nullptr;  // none between worlds
  std::string job_id;
  bool is_ending = false;  // the job stops: what is newest goes to storage now
  uint32_t failures = 0;   // of the job so far
  Duration age;            // of the job
  HasEnded has_ended;      // empty: nobody has
  IsGone is_gone;          // empty: nobody is
  // Nodes of a job that ends, or whose world has lost some, in order of their ids; some may be away
  // for a moment.
  std::vector<NodeId> members = {};
  Duration storage_wait = {};  // how long an end, or a rank that closes, waits for storage

  // Anybody's copy is as good as the image of a rank that saves no more.
  bool TakesWhatIsLeft() const { return is_ending || is_gone != nullptr; }
};

// The pause after the first try to store a step that failed; it doubles so often.
inline constexpr Duration kPersistRetryMin = Duration::Seconds(2);
inline constexpr uint32_t kPersistDoublingsMax = 8;

class CheckpointLedger {
 public:
  void Report(NodeId node, CheckpointReport report);
  bool has_reports() const { return !memories_.reports.empty(); }
  // It knows of no order yet.
  void Greet(NodeId node) { newcomers_.push_back(node); }
  // Its connection broke: what it has may be gone.
  void Forget(NodeId node);

  // Whether Next() may have something to say. It looks at every image of the job, so a call for
  // each message of thousands of nodes would take more than a core: what was reported counts only
  // when `is_calm`, after the crowd that it came in.
  bool IsDue(Instant now, const CheckpointView& view, bool is_calm) const;
  // Reports wait for that calm.
  bool has_news() const { return has_news_; }
  // The next fact that is due, if any; call again until there is none. `said` gets what people
  // should know of failures that change no fact.
  std::optional<CheckpointFact> Next(Instant now, const CheckpointView& view,
                                     std::vector<std::string>* said);

  // What this node shall do now.
  CheckpointOrder OrderFor(NodeId node, const CheckpointView& view) const;
  // Some order may have changed since the last call.
  bool TakeChanged();
  // Who has to be told alone, when no order has changed. Telling all for each of thousands of nodes
  // that come at once would take minutes.
  std::vector<NodeId> TakeNewcomers() { return std::exchange(newcomers_, {}); }

  Instant NextDeadline() const;
  // The job ends, and no more of it is on its way to storage, or may come to be. Said once for
  // good: nodes give their memory back then.
  bool is_over() const { return is_over_; }
  const std::optional<CheckpointTerms>& terms() const { return terms_; }
  // The newest step that every rank of the world has in memory; of a job that ends, the newest of
  // any world that is left.
  std::optional<SavedStep> newest_in_memory() const { return complete_; }
  // The same of a job that ends, and what was whole before a host was lost with a part of it.
  std::optional<SavedStep> newest_saved() const { return std::max(complete_, lost_at_end_); }
  // The newest step of which every image has its copies on other hosts.
  std::optional<SavedStep> replicated() const { return replication_.newest(); }
  // When the job saved the newest step that it can go on from without that node's memory; only of
  // steps in memory.
  std::optional<Instant> SavedAtWithout(NodeId node, const World& world) const;
  // A step became whole in memory at this moment, and `world` can go on from it although `joiners`
  // have nothing of it yet.
  bool CanMoveTo(const World& world, const std::vector<NodeId>& joiners, Instant now) const;
  // The step that is on its way to storage.
  std::optional<SavedStep> persisting() const {
    return persist_.has_value() ? std::optional(persist_->order.saved) : std::nullopt;
  }
  // Why the last step that was due is not in storage; empty: it is, or none was due.
  const std::string& problem() const { return problem_; }

 private:
  struct Persist {
    PersistOrder order;                  // with the shards of all ranks
    std::map<uint32_t, NodeId> node_of;  // by rank
    Instant since;
    bool is_held = false;  // it was announced, and no step that somebody waits for
    bool is_committing = false;
    NodeId committer;
  };

  std::optional<CheckpointFact> NextFact(Instant now, const CheckpointView& view,
                                         std::vector<std::string>* said);
  std::optional<CheckpointFact> NextRestore(const CheckpointView& view);
  void Plan(const RestoreDecided& decided, const World& world);
  std::optional<SavedStep> WorthReplicating() const;
  bool HasHeardAll(const World& world) const;
  void LearnTerms();
  bool IsFlushing(const CheckpointView& view) const;
  bool IsNewestNotStored(const CheckpointView& view) const;
  void SettleEnd(const CheckpointView& view);
  bool IsAwaitedWithPatience(const CheckpointView& view) const;
  std::optional<CheckpointFact> NextRefusal(Instant now, const CheckpointView& view);
  bool HasLostWriter(const CheckpointView& view) const;
  std::optional<SavedStep> HeldByAll(const World& world) const;
  SavedStep NewestSaved(const World& world) const;
  void PlanHold(Instant now, const CheckpointView& view);
  // A hold came too late: the next one comes earlier. It was overtaken by so many branches.
  void AnnounceEarlier(uint64_t branches);
  SavedStep Ahead(SavedStep newest) const;  // a hold that all should hear of in time
  void StartPersist(Instant now, const CheckpointView& view, SavedStep saved);
  std::optional<CheckpointFact> BeginPersist(Instant now, const CheckpointView& view,
                                             SavedStep saved, std::vector<std::string>* said);
  std::optional<CheckpointFact> WatchPersist(Instant now, const CheckpointView& view,
                                             std::vector<std::string>* said);
  bool NoteShardProblem(Instant now, const CheckpointView& view, std::vector<std::string>* said);
  std::set<uint32_t> NotDurable() const;  // ranks of persist_
  std::optional<CheckpointFact> WatchCommit(Instant now, const CheckpointView& view,
                                            std::vector<std::string>* said);
  enum class Fault { kStorage, kMemory };  // who is to blame for a step that did not get there
  void GiveUp(Instant now, const std::string& why, Fault fault, std::vector<std::string>* said);
  Duration Interval(const CheckpointView& view) const;
  Instant DueAfter(const CheckpointView& view) const;
  void NoteFormerMaster(const CheckpointBook& book);
  bool HasSaved(const World& world) const;
  void NoteWhole(Instant now);

  Memories memories_;
  std::optional<CheckpointTerms> terms_;
  std::optional<SavedStep> complete_;
  // Steps that were whole in memory, and since when; oldest first, a few.
  std::vector<std::pair<SavedStep, Instant>> whole_since_;
  std::optional<SavedStep> lost_at_end_;  // was whole while the job ended, and is no more
  std::optional<SavedStep> hold_;
  Instant hold_at_;     // when it was announced
  int64_t margin_ = 1;  // steps between the announcement of a hold and the held step
  // The same in branches, where they are shorter than the way of an order; else 0.
  uint64_t branch_margin_ = 0;
  SavedStep last_;  // newest that went to storage, or was restored
  Instant due_at_;  // of the next persist by time; after a failure, of the next try
  std::optional<Instant> first_save_at_;  // of the job, or of its first world: see NoteFormerMaster
  Generation planned_for_;                // world for which due_at_ and last_step_ were set
  Duration persist_took_ = Duration::Seconds(1);
  uint32_t failures_in_a_row_ = 0;
  std::string problem_;               // of the last failure; empty after a success
  std::optional<SavedStep> refused_;  // by storage, and not looked at yet
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
  bool has_news_ = false;   // since the last look
  bool goes_on_ = false;    // the last look ended with a fact
  Instant looked_at_;       // when that was
  Generation looked_for_;   // and for which world
  size_t looked_with_ = 0;  // members of the view
};

}  // namespace paceline::core
