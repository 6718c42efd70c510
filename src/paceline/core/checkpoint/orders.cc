// The checkpoint ledger's orders to its nodes, and when an end is complete.

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/ledger.h"

namespace paceline::core {

// The node that was writing this checkpoint is gone. Look for another complete set of images.
bool CheckpointLedger::HasLostWriter(const CheckpointView& view) const {
  if (!persist_.has_value() || !view.TakesWhatIsLeft()) return false;
  return std::any_of(persist_->node_of.begin(), persist_->node_of.end(), [&](const auto& entry) {
    return !std::binary_search(view.members.begin(), view.members.end(), entry.second);
  });
}

bool CheckpointLedger::IsFlushing(const CheckpointView& view) const {
  // A master without a past has decided no restore, and its nodes may have images all the same. It
  // may be stopped before they have reported any.
  const bool has_images =
      std::any_of(memories_.reports.begin(), memories_.reports.end(),
                  [](const auto& entry) { return !entry.second.images.empty(); });
  const bool has_checkpoints =
      view.book.restore.generation.value() != 0 || has_images || view.has_lost_past;
  if (!has_checkpoints || view.world == nullptr) return false;
  if (persist_.has_value()) return !HasLostWriter(view);
  // A disconnected node may still hold the newest image: it may be partitioned, or this master may
  // have started after its last report. Keep waiting for it.
  for (const NodeId node : view.members) {
    const auto report = memories_.reports.find(node);
    if (report != memories_.reports.end() && report->second.is_final) continue;
    MARK("a stop waits for the last word of a node");
    return true;
  }
  return terms_.has_value() && IsNewestNotStored(view) && !IsEndedWithout(view.book, *complete_);
}

void CheckpointLedger::SettleEnd(const CheckpointView& view) {
  const bool was_over = std::exchange(is_over_, view.is_ending && (is_over_ || !IsFlushing(view)));
  if (!is_over_ || was_over) return;
  has_changed_ = true;
  if (view.world == nullptr && view.has_lost_past) {
    MARK("a master without a past is stopped before its first world");
    problem_ = "this master was stopped before it knew a world of the job";
    return;
  }
  const auto& stored = view.book.committed;
  if (lost_at_end_ > complete_ && (!stored.has_value() || stored->saved < *lost_at_end_)) {
    // A problem, so the hosts that are left keep their images: a resumed job may go on from them.
    MARK("a lost host had a part of the last step");
    if (problem_.empty()) problem_ = kPartIsLost;
    return;
  }
  if (terms_.has_value() || !IsNewestNotStored(view)) return;
  // All ranks and agents that knew the directory are gone.
  MARK("nobody knows where the last step belongs");
  problem_ = kDirectoryUnknown;
}

void CheckpointLedger::GiveUp(Instant now, const std::string& why, Fault fault,
                              std::vector<std::string>* said) {
  MARK("persist failed");
  problem_ = why;
  said->push_back(Say(persist_->order.saved) + " did not get to storage: " + why);
  const uint32_t doublings = std::min(failures_in_a_row_, kPersistDoublingsMax);
  due_at_ = now + kPersistRetryMin * (int64_t{1} << doublings);
  ++failures_in_a_row_;
  if (fault == Fault::kStorage) refused_ = persist_->order.saved;
  persist_.reset();
  has_changed_ = true;
}

// True if the end of the job, or a rank in close(), waits for storage only.
bool CheckpointLedger::IsAwaitedWithPatience(const CheckpointView& view) const {
  if (view.is_ending) return true;
  return std::any_of(memories_.reports.begin(), memories_.reports.end(),
                     [](const auto& entry) { return entry.second.is_closing; });
}

// A refusal by storage is recorded for people at once, and again if its reason changes. A waiting
// rank is told when its time is over.
std::optional<CheckpointFact> CheckpointLedger::NextRefusal(Instant now,
                                                            const CheckpointView& view) {
  if (!refused_.has_value()) return std::nullopt;
  CheckpointNotStored fact{.saved = *refused_,
                           .directory = terms_->directory,
                           .reason = problem_,
                           .generation = view.world->generation};
  refused_.reset();
  if (IsAwaitedWithPatience(view)) {
    const bool is_newest = complete_.has_value() && fact.saved == *complete_;
    fact.is_final = storage_wait_.Refuse(now, view.storage_wait, problem_) && is_newest;
    due_at_ = storage_wait_.RetryAt(now, due_at_ - now, view.storage_wait);
  }
  if (fact.is_final) MARK("storage refuses the last step for too long");
  const auto& told = view.book.not_stored;
  const bool is_known = told.has_value() && !fact.is_final && !told->is_final &&
                        IsSameReason(told->reason, fact.reason);
  if (is_known) return std::nullopt;
  has_changed_ = true;
  return fact;
}

bool CheckpointLedger::IsNewestNotStored(const CheckpointView& view) const {
  const std::optional<CheckpointCommitted>& committed = view.book.committed;
  return complete_.has_value() && (!committed.has_value() || committed->saved < *complete_);
}

CheckpointOrder CheckpointLedger::OrderFor(NodeId node, const CheckpointView& view) const {
  CheckpointOrder order;
  order.terms = terms_;
  order.hold = hold_;
  if (view.book.committed.has_value()) order.durable = view.book.committed->saved;
  order.damaged = view.book.damaged;
  order.problem = last_steps_.why().empty() ? problem_ : last_steps_.why();
  const auto& not_stored = view.book.not_stored;
  if (not_stored.has_value() && not_stored->is_final) order.given_up = not_stored->saved;
  order.is_ending = view.is_ending;
  order.is_over = is_over_;
  const RestoreDecided& decided = view.book.restore;
  if (view.world != nullptr && decided.generation == view.world->generation) {
    RestoreOrder& restore = order.restore.emplace();
    restore.generation = decided.generation;
    restore.from = decided.from;
    restore.saved = decided.saved;
    restore.world_size = decided.world_size;
    restore.name = decided.name;
    restore.reason = decided.reason;
    const bool is_planned = plan_for_ == decided.generation;
    const auto mine = plan_.sources.find(node);
    if (is_planned && mine != plan_.sources.end()) restore.sources = mine->second;
    const auto fetches = plan_.fetches.find(node);
    const bool is_needed = is_planned && !complete_.has_value();
    if (is_needed && fetches != plan_.fetches.end()) order.fetch = fetches->second;
    const auto readers = plan_.readers.find(node);
    if (is_needed && readers != plan_.readers.end()) order.readers = readers->second;
  }
  order.replicas = replication_.replicas();
  order.replicated = replication_.newest();
  order.copying = replication_.copying();
  order.equal = replication_.EqualFor(node);
  order.replica_problem = replication_.problem();
  order.drop_others = replication_.is_complete();
  if (order.fetch.empty()) order.fetch = replication_.OrdersFor(node);
  if (!persist_.has_value()) return order;
  PersistOrder mine = persist_->order;
  std::erase_if(mine.shards, [&](const PersistOrder::Shard& shard) {
    return persist_->node_of.at(shard.rank.value()) != node;
  });
  if (!mine.shards.empty()) order.persist = std::move(mine);
  if (persist_->is_committing && persist_->committer == node) order.commit = persist_->order;
  return order;
}

}  // namespace paceline::core
