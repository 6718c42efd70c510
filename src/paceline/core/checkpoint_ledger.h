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
//   persist   When all ranks hold the same step, each writes its file; equal files are written
//   once. commit    When all of them are durable, one node writes the manifest.
//
// No collective, no poll: a report or the passing of time moves it on.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint_book.h"
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
};

class CheckpointLedger {
 public:
  void Report(NodeId node, CheckpointReport report);
  bool has_reports() const { return !reports_.empty(); }
  // Its connection broke: what it has may be gone.
  void Forget(NodeId node);

  // The next fact that is due, if any; call again until there is none. `said` gets what people
  // should know of failures that change no fact.
  std::optional<CheckpointFact> Next(Instant now, const CheckpointView& view,
                                     std::vector<std::string>* said);

  // What this node shall do now.
  CheckpointOrder OrderFor(NodeId node, const CheckpointView& view) const;
  // Some order may have changed since the last call.
  bool TakeChanged();

  Instant NextDeadline() const;
  // Something is on its way to storage that was asked for, or must be before the job ends.
  bool IsFlushing(const CheckpointView& view) const;
  const std::optional<CheckpointTerms>& terms() const { return terms_; }
  // The newest step that every rank of the world has in memory, and the newest committed.
  std::optional<SavedStep> newest_in_memory() const { return complete_; }

 private:
  struct Persist {
    PersistOrder order;                  // with the shards of all ranks
    std::map<uint32_t, NodeId> node_of;  // by rank
    Instant since;
    bool is_committing = false;
    NodeId committer;
  };

  bool HasHeardAll(const World& world) const;
  void LearnTerms();
  RestoreDecided DecideRestore(const CheckpointView& view) const;
  std::optional<SavedStep> NewestComplete(const CheckpointView& view) const;
  std::optional<SavedStep> HeldByAll(const World& world) const;
  void PlanHold(Instant now, const CheckpointView& view);
  void StartPersist(Instant now, const CheckpointView& view, SavedStep saved);
  std::optional<CheckpointFact> WatchPersist(Instant now, const CheckpointView& view,
                                             std::vector<std::string>* said);
  void GiveUp(Instant now, const std::string& why, std::vector<std::string>* said);
  Duration Interval(const CheckpointView& view) const;

  std::map<NodeId, CheckpointReport> reports_;
  std::optional<CheckpointTerms> terms_;
  std::optional<SavedStep> complete_;
  std::optional<int64_t> hold_;
  int64_t margin_ = 1;      // steps between the announcement of a hold and the held step
  int64_t last_step_ = -1;  // newest that went to storage, or was restored
  Instant due_at_;          // of the next persist by time
  Generation planned_for_;  // world for which due_at_ and last_step_ were set
  Duration persist_took_ = Duration::Seconds(1);
  uint32_t failures_in_a_row_ = 0;
  std::string problem_;  // of the last failure; empty after a success
  std::optional<Persist> persist_;
  Generation sources_for_;
  std::map<NodeId, std::vector<RestoreOrder::Source>> sources_;  // of that world's restore
  bool was_ending_ = false;
  bool has_changed_ = false;
};

// The pure heart of the restore ladder: can every rank of `world` take `saved` from the memory of
// its own host? The sources by node, or nothing.
std::optional<std::map<NodeId, std::vector<RestoreOrder::Source>>> SourcesInMemory(
    const World& world, const std::map<NodeId, CheckpointReport>& reports, SavedStep saved);

}  // namespace paceline::core
