#include "paceline/core/checkpoint_ledger.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "paceline/base/mark.h"

namespace paceline::core {
namespace {

constexpr Duration kIntervalMin = Duration::Seconds(10);
constexpr Duration kIntervalMax = Duration::Seconds(30 * 60);
// Assumed until the job has failed: a host a week, thirty hosts.
constexpr Duration kFailureEvery = Duration::Seconds(6 * 3600);
constexpr int64_t kMarginMax = 64;
constexpr Duration kRetryMin = Duration::Seconds(2);
constexpr uint32_t kRetryDoublingsMax = 8;
// A shard that says nothing for so long is given up; the next step is tried then.
constexpr Duration kPersistMax = Duration::Seconds(30 * 60);

// The host still has something that this rank saved in that world.
bool Remembers(const CheckpointReport& report, Rank rank, uint64_t generation) {
  for (const MemoryImage& image : report.images) {
    if (image.rank == rank && image.saved.generation == generation) return true;
  }
  return false;
}

const MemoryImage* Find(const CheckpointReport& report, Rank rank, SavedStep saved) {
  for (const MemoryImage& image : report.images) {
    if (image.rank == rank && image.saved == saved) return &image;
  }
  return nullptr;
}

// Each node of the world has said something since its connection was made. Others on its host may
// have told of its images; it alone can write them.
bool AreAllThere(const World& world, const std::map<NodeId, CheckpointReport>& reports) {
  return std::all_of(world.seats.begin(), world.seats.end(),
                     [&](const Seat& seat) { return reports.contains(seat.node); });
}

bool IsDamaged(const CheckpointBook& book, const std::string& name) {
  return std::find(book.damaged.begin(), book.damaged.end(), name) != book.damaged.end();
}

struct Seen {
  std::map<uint32_t, uint64_t> root_of;  // by rank
  uint32_t world_size = 0;
  bool is_replica = true;  // every image says so
  bool AreEqual() const {
    for (const auto& [rank, root] : root_of) {
      if (root != root_of.begin()->second) return false;
    }
    return true;
  }
};

Seen Look(const std::map<NodeId, CheckpointReport>& reports, SavedStep saved) {
  Seen seen;
  for (const auto& [node, report] : reports) {
    for (const MemoryImage& image : report.images) {
      if (image.saved != saved) continue;
      seen.root_of[image.rank.value()] = image.file_root;
      seen.world_size = image.world_size;
      seen.is_replica = seen.is_replica && image.is_replica;
    }
  }
  return seen;
}

std::string Step(SavedStep saved) { return std::to_string(saved.step); }

}  // namespace

std::optional<std::map<NodeId, std::vector<RestoreOrder::Source>>> SourcesInMemory(
    const World& world, const std::map<NodeId, CheckpointReport>& reports, SavedStep saved) {
  const Seen seen = Look(reports, saved);
  if (seen.root_of.empty()) return std::nullopt;
  // One tensor state on all ranks: the script says so, or all of them are here and equal.
  const bool are_all_here = seen.root_of.size() == seen.world_size;
  const bool is_replicated = seen.AreEqual() && (seen.is_replica || are_all_here);
  const bool is_same_size = seen.world_size == world.world_size();
  std::map<NodeId, std::vector<RestoreOrder::Source>> sources;
  for (const Seat& seat : world.seats) {
    const auto found = reports.find(seat.node);
    if (found == reports.end()) return std::nullopt;
    const CheckpointReport& report = found->second;
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      RestoreOrder::Source source{Rank(seat.first_rank + i), {}};
      const MemoryImage* own = Find(report, source.rank, saved);
      if (own != nullptr && (is_same_size || is_replicated)) {
        source.images.push_back({own->rank, own->place});
      } else if (is_same_size && Remembers(report, source.rank, saved.generation)) {
        // It was a step behind. A replica's tensors would do, but not its random numbers: an older
        // step that is wholly this rank's is better than a newer one that is not.
        return std::nullopt;
      } else if (is_replicated) {
        for (const MemoryImage& image : report.images) {
          if (image.saved != saved) continue;
          source.images.push_back({image.rank, image.place});
          break;
        }
      } else if (!is_same_size && are_all_here) {
        for (const auto& [rank, root] : seen.root_of) {
          const MemoryImage* image = Find(report, Rank(rank), saved);
          if (image == nullptr) return std::nullopt;
          source.images.push_back({image->rank, image->place});
        }
      }
      if (source.images.empty()) return std::nullopt;
      sources[seat.node].push_back(std::move(source));
    }
  }
  return sources;
}

void CheckpointLedger::Report(NodeId node, CheckpointReport report) {
  // Somebody new has to be told what all others know.
  if (!reports_.contains(node)) has_changed_ = true;
  reports_[node] = std::move(report);
}

void CheckpointLedger::Forget(NodeId node) {
  if (reports_.erase(node) > 0) has_changed_ = true;
}

bool CheckpointLedger::TakeChanged() { return std::exchange(has_changed_, false); }

Instant CheckpointLedger::NextDeadline() const {
  if (!terms_.has_value()) return Instant::Max();
  if (persist_.has_value()) return persist_->since + kPersistMax;
  const bool has_nothing = !complete_.has_value() && last_step_ < 0;
  if (hold_.has_value() || has_nothing || planned_for_ == Generation()) return Instant::Max();
  return due_at_;
}

bool CheckpointLedger::HasHeardAll(const World& world) const {
  for (const Seat& seat : world.seats) {
    const auto found = reports_.find(seat.node);
    if (found == reports_.end() || found->second.generation != world.generation) return false;
  }
  return true;
}

// The first that were heard, as long as anybody holds to them: agents refuse ranks with others. A
// process without a launcher may come back with new ones.
void CheckpointLedger::LearnTerms() {
  std::optional<CheckpointTerms> others;
  for (const auto& [node, report] : reports_) {
    if (!report.terms.has_value()) continue;
    if (report.terms == terms_) return;
    if (!others.has_value()) others = report.terms;
  }
  if (!others.has_value()) return;
  terms_ = others;
  has_changed_ = true;
}

RestoreDecided CheckpointLedger::DecideRestore(const CheckpointView& view) const {
  const World& world = *view.world;
  const RestoreDecided& former = view.book.restore;
  std::set<SavedStep> candidates;
  std::optional<StoredCheckpoint> stored;
  for (const auto& [node, report] : reports_) {
    for (const MemoryImage& image : report.images) {
      // What an older world saved beyond the point where a newer one went on is a dead branch.
      const bool is_dead =
          image.saved.generation < former.generation.value() && image.saved > former.saved;
      if (image.saved.generation <= world.generation.value() && !is_dead) {
        candidates.insert(image.saved);
      }
    }
    if (!report.stored.has_value()) continue;
    const auto age = [](const StoredCheckpoint& one) {
      return std::pair(one.saved.step, one.saved.generation);
    };
    if (!IsDamaged(view.book, report.stored->name) &&
        (!stored.has_value() || age(*stored) < age(*report.stored))) {
      stored = report.stored;
    }
  }
  RestoreDecided decided;
  decided.generation = world.generation;
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
    const bool is_ours = stored.has_value() && stored->job_id == view.job_id;
    if (is_ours && stored->saved > *it) break;
    if (!SourcesInMemory(world, reports_, *it).has_value()) continue;
    MARK("restore from memory");
    decided.from = RestoreOrder::From::kMemory;
    decided.saved = *it;
    decided.world_size = Look(reports_, *it).world_size;
    decided.reason = "goes on after step " + Step(*it) + ", from memory";
    return decided;
  }
  if (stored.has_value()) {
    MARK("restore from storage");
    decided.from = RestoreOrder::From::kStorage;
    decided.saved = stored->saved;
    decided.world_size = stored->world_size;
    decided.name = stored->name;
    decided.reason = "goes on after step " + Step(stored->saved) + ", from " + stored->name +
                     (candidates.empty() ? ": nothing is in memory"
                                         : ": no newer step is in the memory of every rank's host");
    return decided;
  }
  decided.reason = "begins anew: there is no checkpoint";
  if (view.book.damaged.empty()) return decided;
  // To begin anew beside what somebody once trained is nobody's wish; the script is told.
  decided.name = view.book.damaged.back();
  decided.reason = "has nothing to go on from: every checkpoint is damaged";
  return decided;
}

std::optional<SavedStep> CheckpointLedger::NewestComplete(const CheckpointView& view) const {
  // Only what this world saved: older steps were restored, so they are somewhere already.
  const World& world = *view.world;
  std::map<SavedStep, std::set<uint32_t>> ranks;
  for (const auto& [node, report] : reports_) {
    for (const MemoryImage& image : report.images) {
      if (image.saved.generation != world.generation.value()) continue;
      ranks[image.saved].insert(image.rank.value());
    }
  }
  for (auto it = ranks.rbegin(); it != ranks.rend(); ++it) {
    if (it->second.size() == world.world_size()) return it->first;
  }
  return std::nullopt;
}

// The first step from hold_ on that a rank has, when it is the same for all.
std::optional<SavedStep> CheckpointLedger::HeldByAll(const World& world) const {
  std::map<uint32_t, int64_t> first;
  for (const auto& [node, report] : reports_) {
    for (const MemoryImage& image : report.images) {
      const bool counts =
          image.saved.generation == world.generation.value() && image.saved.step >= *hold_;
      if (!counts) continue;
      const auto [at, is_new] = first.emplace(image.rank.value(), image.saved.step);
      at->second = std::min(at->second, image.saved.step);
    }
  }
  if (first.empty() || first.size() < world.world_size()) return std::nullopt;
  int64_t most = -1;
  for (const auto& [rank, step] : first) most = std::max(most, step);
  return SavedStep{world.generation.value(), most};
}

Duration CheckpointLedger::Interval(const CheckpointView& view) const {
  if (terms_->policy.kind == PersistPolicy::Kind::kTime) return terms_->policy.time;
  // Young's first order: sqrt(2 · cost · time between failures). Persisting takes nothing from the
  // training but some memory bandwidth; a twentieth of its duration is what it is taken to cost.
  const Duration between = view.failures == 0
                               ? kFailureEvery
                               : std::max(kIntervalMin, view.age / (view.failures + int64_t{1}));
  const double cost_s = persist_took_.ToSecondsF() / 20;
  const double seconds = std::sqrt(2 * cost_s * between.ToSecondsF());
  return std::clamp(Duration::Milliseconds(static_cast<int64_t>(seconds * 1000)), kIntervalMin,
                    kIntervalMax);
}

// Announces the next step that goes to storage, once it is due.
void CheckpointLedger::PlanHold(Instant now, const CheckpointView& view) {
  const World& world = *view.world;
  if (planned_for_ != world.generation) {
    planned_for_ = world.generation;
    last_step_ = view.book.restore.saved.step;
    due_at_ = now + Interval(view);
    hold_.reset();
    margin_ = 1;
    has_changed_ = true;
  }
  if (hold_.has_value() || persist_.has_value()) return;
  const int64_t newest = complete_.has_value() ? complete_->step : last_step_;
  if (terms_->policy.kind == PersistPolicy::Kind::kSteps) {
    if (failures_in_a_row_ > 0 && now < due_at_) return;
    const int64_t steps = std::max<int64_t>(terms_->policy.steps, 1);
    hold_ = (std::max(newest, last_step_) / steps + 1) * steps;
    if (newest < 0) hold_ = steps;
  } else {
    if (now < due_at_ || newest < 0) return;
    hold_ = newest + margin_;
  }
  has_changed_ = true;
}

void CheckpointLedger::StartPersist(Instant now, const CheckpointView& view, SavedStep saved) {
  Persist persist;
  persist.since = now;
  persist.order.saved = saved;
  persist.order.world_size = view.world->world_size();
  persist.order.name = "step-" + Step(saved) + "-g" + std::to_string(saved.generation);
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> writer_of;  // of equal files: the lowest rank
  for (const Seat& seat : view.world->seats) {
    for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
      persist.node_of[rank] = seat.node;
      const MemoryImage* image = Find(reports_.at(seat.node), Rank(rank), saved);
      if (image == nullptr) return;  // gone since
      const auto key = std::pair(image->file_root, image->file_bytes);
      const uint32_t writer = writer_of.emplace(key, rank).first->second;
      persist.order.shards.push_back({Rank(rank), Rank(writer)});
    }
  }
  MARK("persist begins");
  persist_ = std::move(persist);
  hold_.reset();
  has_changed_ = true;
}

void CheckpointLedger::GiveUp(Instant now, const std::string& why, std::vector<std::string>* said) {
  MARK("persist failed");
  problem_ = why;
  said->push_back("step " + Step(persist_->order.saved) + " did not get to storage: " + why);
  const uint32_t doublings = std::min(failures_in_a_row_, kRetryDoublingsMax);
  due_at_ = now + kRetryMin * (int64_t{1} << doublings);
  ++failures_in_a_row_;
  persist_.reset();
  has_changed_ = true;
}

std::optional<CheckpointFact> CheckpointLedger::WatchPersist(Instant now,
                                                             const CheckpointView& view,
                                                             std::vector<std::string>* said) {
  Persist& persist = *persist_;
  size_t durable = 0;
  for (const auto& [rank, node] : persist.node_of) {
    const auto report = reports_.find(node);
    if (report == reports_.end()) continue;
    for (const ShardState& shard : report->second.shards) {
      if (shard.rank.value() != rank || shard.saved != persist.order.saved) continue;
      if (!shard.problem.empty()) {
        GiveUp(now, "rank " + std::to_string(rank) + ": " + shard.problem, said);
        return std::nullopt;
      }
      durable += shard.is_durable ? 1 : 0;
    }
  }
  if (now >= persist.since + kPersistMax) {
    GiveUp(now, std::to_string(persist.node_of.size() - durable) + " shards are missing", said);
    return std::nullopt;
  }
  if (durable < persist.node_of.size()) return std::nullopt;
  if (!persist.is_committing || !reports_.contains(persist.committer)) {
    for (const Seat& seat : view.world->seats) {
      if (!reports_.contains(seat.node)) continue;
      persist.is_committing = true;
      persist.committer = seat.node;
      has_changed_ = true;
      break;
    }
    return std::nullopt;
  }
  const std::optional<CommitState>& commit = reports_.at(persist.committer).commit;
  if (!commit.has_value() || commit->name != persist.order.name) return std::nullopt;
  if (!commit->is_done) {
    if (!commit->problem.empty()) GiveUp(now, commit->problem, said);
    return std::nullopt;
  }
  MARK("checkpoint committed");
  CheckpointCommitted committed{.name = persist.order.name,
                                .directory = terms_->directory,
                                .saved = persist.order.saved,
                                .bytes = commit->bytes};
  persist_took_ = now - persist.since;
  failures_in_a_row_ = 0;
  problem_.clear();
  margin_ = std::max<int64_t>(1, margin_ / 2);
  last_step_ = committed.saved.step;
  due_at_ = now + Interval(view);
  persist_.reset();
  has_changed_ = true;
  return committed;
}

std::optional<CheckpointFact> CheckpointLedger::Next(Instant now, const CheckpointView& view,
                                                     std::vector<std::string>* said) {
  LearnTerms();
  if (std::exchange(was_ending_, view.is_ending) != view.is_ending) has_changed_ = true;
  if (!terms_.has_value() || view.world == nullptr) {
    persist_.reset();
    return std::nullopt;
  }
  for (const auto& [node, report] : reports_) {
    for (const std::string& name : report.damaged) {
      if (IsDamaged(view.book, name)) continue;
      has_changed_ = true;
      return CheckpointDamaged{name, node, ""};
    }
  }
  if (view.book.restore.generation < view.world->generation) {
    persist_.reset();
    if (view.is_ending || !HasHeardAll(*view.world)) return std::nullopt;
    RestoreDecided decided = DecideRestore(view);
    sources_for_ = decided.generation;
    sources_.clear();
    if (decided.from == RestoreOrder::From::kMemory) {
      sources_ = *SourcesInMemory(*view.world, reports_, decided.saved);
    }
    has_changed_ = true;
    return decided;
  }
  complete_ = NewestComplete(view);
  if (persist_.has_value()) {
    if (auto fact = WatchPersist(now, view, said)) return fact;
  }
  if (persist_.has_value() || !AreAllThere(*view.world, reports_)) return std::nullopt;
  const bool is_new = complete_.has_value() &&
                      (!view.book.committed.has_value() || view.book.committed->saved < *complete_);
  bool flush = view.is_ending;
  for (const auto& [node, report] : reports_) {
    flush = flush ||
            (report.flush.has_value() && complete_.has_value() && *report.flush <= complete_->step);
  }
  if (flush && is_new && (failures_in_a_row_ == 0 || now >= due_at_)) {
    StartPersist(now, view, *complete_);
    return std::nullopt;
  }
  if (!view.is_ending) PlanHold(now, view);
  if (!hold_.has_value() || view.is_ending) return std::nullopt;
  const std::optional<SavedStep> held = HeldByAll(*view.world);
  if (!held.has_value()) return std::nullopt;
  for (const Seat& seat : view.world->seats) {
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      if (Find(reports_.at(seat.node), Rank(seat.first_rank + i), *held) != nullptr) continue;
      // Some rank heard of the hold too late and kept another step than the rest.
      MARK("hold came too late");
      margin_ = std::min(margin_ * 2, kMarginMax);
      hold_ = held->step + margin_;
      has_changed_ = true;
      return std::nullopt;
    }
  }
  StartPersist(now, view, *held);
  return std::nullopt;
}

bool CheckpointLedger::IsFlushing(const CheckpointView& view) const {
  if (!terms_.has_value() || view.world == nullptr) return false;
  if (!AreAllThere(*view.world, reports_)) return false;
  if (persist_.has_value()) return true;
  if (!complete_.has_value() || failures_in_a_row_ > 0) return false;
  return !view.book.committed.has_value() || view.book.committed->saved < *complete_;
}

CheckpointOrder CheckpointLedger::OrderFor(NodeId node, const CheckpointView& view) const {
  CheckpointOrder order;
  order.terms = terms_;
  order.hold = hold_;
  if (view.book.committed.has_value()) order.durable = view.book.committed->saved;
  order.damaged = view.book.damaged;
  order.problem = problem_;
  order.is_ending = view.is_ending;
  order.is_over = view.is_ending && !IsFlushing(view);
  const RestoreDecided& decided = view.book.restore;
  if (view.world != nullptr && decided.generation == view.world->generation) {
    RestoreOrder& restore = order.restore.emplace();
    restore.generation = decided.generation;
    restore.from = decided.from;
    restore.saved = decided.saved;
    restore.world_size = decided.world_size;
    restore.name = decided.name;
    restore.reason = decided.reason;
    if (const auto mine = sources_.find(node);
        sources_for_ == decided.generation && mine != sources_.end()) {
      restore.sources = mine->second;
    } else if (decided.from == RestoreOrder::From::kMemory) {
      // A new master: the ranks that have not restored yet keep the others from going on.
      auto sources = SourcesInMemory(*view.world, reports_, decided.saved);
      if (sources.has_value()) restore.sources = std::move((*sources)[node]);
    }
  }
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
