// Steps in the journal were really made, and checkpoints in it were really saved. A script that
// saves by itself starts at the newest saved step, which determines the loss at a restart.
//
// With a Checkpointer the decision is checked. A world must not start behind any of these: the
// newest step that each of its ranks has complete in the memory of its own node, or as a copy on
// another node of the world; the newest checkpoint that was reported complete and can be read. It
// must not start before a node has seen storage. If all ranks hold the same tensors, each image is
// a copy of all others, once the nodes know that.
//
// This is a slow and simple twin of the ledger's rule. It looks at the arenas and at storage
// directly, not at reports. Copies count if they were complete when their node reported for this
// world.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class RestoreNewest final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    if (const auto* told = std::get_if<core::CheckpointReported>(&turn.event)) {
      for (const FetchFailure& failure : told->report.failed) {
        unfetched_.insert({failure.rank, failure.saved});
      }
    }
    for (const core::Record& record : turn.actions.records) {
      if (const auto* fact = std::get_if<core::RecoveryDecided>(&record.fact)) {
        Judge(world, fact->step, fact->saved_step);
      } else if (const auto* fact = std::get_if<core::WorldRunning>(&record.fact)) {
        Judge(world, fact->step, -1);
      } else if (const auto* fact = std::get_if<core::WorldEnded>(&record.fact)) {
        Judge(world, fact->step, -1);
      } else if (const auto* fact = std::get_if<core::ProgressMade>(&record.fact)) {
        Judge(world, fact->step, -1);
      } else if (const auto* fact = std::get_if<core::RestoreDecided>(&record.fact)) {
        Judge(world, *fact);
      }
      Note(record);
    }
  }

  void Restored(SimWorld& world) override {
    former_ = {};
    committed_.reset();
    damaged_.clear();
    for (const core::Record& record : world.master().durable()) Note(record);
  }

 private:
  void Note(const core::Record& record) {
    if (const auto* fact = std::get_if<core::RestoreDecided>(&record.fact)) former_ = *fact;
    if (const auto* fact = std::get_if<core::CheckpointCommitted>(&record.fact)) committed_ = *fact;
    if (const auto* fact = std::get_if<core::CheckpointDamaged>(&record.fact)) {
      damaged_.insert(fact->name);
    }
  }

  static void Judge(SimWorld& world, int64_t step, int64_t saved_step) {
    if (step > world.workload().step_max()) {
      world.Fail("restore_newest", "the journal speaks of step " + std::to_string(step) +
                                       ", nobody got beyond " +
                                       std::to_string(world.workload().step_max()));
    }
    if (saved_step > world.workload().newest_saved()) {
      world.Fail("restore_newest", "the journal speaks of a checkpoint of step " +
                                       std::to_string(saved_step) + ", the newest is of " +
                                       std::to_string(world.workload().newest_saved()));
    }
  }

  void Judge(SimWorld& world, const core::RestoreDecided& decided) {
    if (!world.storage().was_seen()) {
      world.Fail("restore_newest", "world " + ToString(decided.generation) + " " + decided.reason +
                                       ", and nobody has seen what is in storage");
    }
    if (const auto best = NewestInMemory(world, decided.generation);
        best.has_value() && world.workload().IsEarlier(decided.saved, *best)) {
      return Blame(world, decided, *best, "is whole in the memory of every rank's node");
    }
    const bool is_later =
        committed_.has_value() && world.workload().IsEarlier(decided.saved, committed_->saved);
    if (!is_later) return;
    const Storage& storage = world.storage();
    const bool is_readable = !damaged_.contains(committed_->name) &&
                             !storage.hurt().contains(committed_->name) &&
                             storage.WhatIsWrongWith(committed_->name).empty();
    if (is_readable) Blame(world, decided, committed_->saved, "is complete in storage");
  }

  static void Blame(SimWorld& world, const core::RestoreDecided& decided, SavedStep best,
                    const char* where) {
    world.Fail("restore_newest", "world " + ToString(decided.generation) + " " + decided.reason +
                                     " (" + Say(decided.saved) + " of generation " +
                                     std::to_string(decided.saved.generation) + "), but " +
                                     Say(best) + " of generation " +
                                     std::to_string(best.generation) + " " + where);
  }

  // The node whose agent the master has: another host may have had that name before.
  static Node* NodeOf(SimWorld& world, NodeId id) {
    const auto& links = world.master().job().links();
    const auto link = links.find(id);
    if (link == links.end() || !link->second.connection.has_value()) return nullptr;
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      AgentHost* agent = world.node(i).agent();
      if (agent != nullptr && agent->connection() == *link->second.connection) {
        return &world.node(i);
      }
    }
    return nullptr;
  }

  std::optional<SavedStep> NewestInMemory(SimWorld& world, Generation generation) const {
    const auto& formed = world.master().job().state().world;
    if (!formed.has_value() || formed->generation != generation) return std::nullopt;
    std::optional<std::set<SavedStep>> whole;  // complete on all ranks so far
    for (const Seat& seat : formed->seats) {
      Node* node = NodeOf(world, seat.node);
      if (node == nullptr) return std::nullopt;  // it is gone since its report
      world.SyncSaves(*node);
      for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
        std::set<SavedStep> mine = WholeIn(world, *node, {node->name(), rank, false}, *formed);
        mine.merge(CopiesOf(world, rank, *formed));
        mine.merge(EqualsOf(world, *node, rank, *formed));
        if (whole.has_value()) {
          std::erase_if(mine, [&](SavedStep saved) { return !whole->contains(saved); });
        }
        whole = std::move(mine);
      }
    }
    if (!whole.has_value() || whole->empty()) return std::nullopt;
    MARK("restore compared with the memories");
    return *std::max_element(whole->begin(), whole->end(), [&](SavedStep a, SavedStep b) {
      return world.workload().IsEarlier(a, b);
    });
  }

  std::set<SavedStep> CopiesOf(SimWorld& world, uint32_t rank, const World& formed) const {
    std::set<SavedStep> saved;
    for (const Seat& seat : formed.seats) {
      Node* holder = NodeOf(world, seat.node);
      if (holder == nullptr || holder->agent() == nullptr) continue;
      SimStation& station = holder->agent()->station();
      const Instant spoken_at = station.SpokenAt(formed.generation);
      if (spoken_at.is_max()) continue;
      const ArenaPlace place{holder->name(), rank, true};
      const SimArena* arena = holder->shelf().Find(place);
      for (const SavedStep one : WholeIn(world, *holder, place, formed)) {
        const bool is_known = arena->Find(one)->sealed_at < spoken_at;
        if (is_known && !unfetched_.contains({Rank(rank), one})) saved.insert(one);
      }
    }
    if (!saved.empty()) MARK("a copy counts for a restore");
    return saved;
  }

  // If all ranks hold the same tensors, a rank without an image takes another rank's. But if its
  // host still has an image that the rank saved in that world, it takes that one, for its own
  // random numbers.
  std::set<SavedStep> EqualsOf(SimWorld& world, Node& node, uint32_t rank,
                               const World& formed) const {
    std::set<SavedStep> saved;
    const Options& options = world.options();
    if (!options.saves.is_replica || options.local_platform) return saved;
    std::set<uint64_t> own;  // generations
    for (const bool is_copy : {false, true}) {
      const SimArena* arena = node.shelf().Find({node.name(), rank, is_copy});
      if (arena == nullptr) continue;
      for (const SimImage* image : arena->Sealed()) own.insert(image->saved.generation);
    }
    for (const Seat& seat : formed.seats) {
      Node* holder = NodeOf(world, seat.node);
      if (holder == nullptr || holder->agent() == nullptr || holder == &node) continue;
      SimStation& station = holder->agent()->station();
      const Instant spoken_at = station.SpokenAt(formed.generation);
      if (spoken_at.is_max()) continue;
      for (uint32_t other = 0; other < formed.world_size(); ++other) {
        for (const SavedStep one :
             WholeIn(world, *holder, {holder->name(), other, false}, formed)) {
          const bool is_known = station.ReplicatedAt(one) < spoken_at;
          const bool is_to_be_had =
              !own.contains(one.generation) && !unfetched_.contains({Rank(other), one});
          if (is_known && is_to_be_had) saved.insert(one);
        }
      }
    }
    if (!saved.empty()) MARK("an equal image counts for a restore");
    return saved;
  }

  std::set<SavedStep> WholeIn(SimWorld& world, Node& node, const ArenaPlace& place,
                              const World& formed) const {
    std::set<SavedStep> saved;
    const SimArena* arena = node.shelf().Find(place);
    if (arena == nullptr) return saved;
    for (const SimImage* image : arena->Sealed()) {
      const bool is_past = image->saved.generation < formed.generation.value();
      const bool is_dead = image->saved.generation < former_.generation.value() &&
                           world.workload().IsEarlier(former_.saved, image->saved);
      const bool is_good =
          !image->is_flipped && !image->is_zombies && image->world_size == formed.world_size();
      if (is_past && !is_dead && is_good) saved.insert(image->saved);
    }
    return saved;
  }

  core::RestoreDecided former_;
  std::optional<core::CheckpointCommitted> committed_;
  std::set<std::string> damaged_;
  std::set<std::pair<Rank, SavedStep>> unfetched_;  // a fetch failed
};

}  // namespace

std::unique_ptr<Check> MakeRestoreNewest() { return std::make_unique<RestoreNewest>(); }

}  // namespace paceline::sim
