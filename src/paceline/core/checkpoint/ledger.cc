#include "paceline/core/checkpoint/ledger.h"

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/commit_fact.h"
#include "paceline/core/checkpoint/rank_text.h"
#include "paceline/core/checkpoint/restore.h"

namespace paceline::core {
namespace {

// A shard that is not reported for this long is given up, and the next step is tried.
constexpr Duration kPersistMax = Duration::Seconds(30 * 60);

// True if each node of the world has reported over its present connection, or never will. Other
// nodes on its host may report its images, but only the node itself can write them.
bool AreAllThere(const CheckpointView& view, const std::map<NodeId, CheckpointReport>& reports) {
  const std::vector<Seat>& seats = view.world->seats;
  return std::all_of(seats.begin(), seats.end(), [&](const Seat& seat) {
    return reports.contains(seat.node) || (view.is_gone && view.is_gone(seat.node));
  });
}

Generation GenerationOf(const CheckpointView& view) {
  return view.world == nullptr ? Generation() : view.world->generation;
}

}  // namespace

bool CheckpointLedger::IsDue(Instant now, const CheckpointView& view, bool is_calm) const {
  // Nodes that had the newest step may be lost now, without a report.
  const bool is_other = view.is_ending != was_ending_ || view.members.size() != looked_with_;
  if (is_other && !is_over_) return true;
  // A job that ends is looked at as well when the last awaited node is gone.
  const bool ends = view.is_ending && !is_over_ && !has_news_ && !IsFlushing(view);
  if (!has_reports() || ends) return ends;
  if (goes_on_ || (has_news_ && is_calm)) return true;
  if (GenerationOf(view) != looked_for_) return true;
  const Instant deadline = NextDeadline();
  return deadline <= now && deadline > looked_at_;
}

void CheckpointLedger::Report(NodeId node, CheckpointReport report) {
  has_news_ = true;
  // A new node needs all orders.
  if (!memories_.reports.contains(node)) Greet(node);
  for (const FetchFailure& failure : report.failed) {
    // The next restore does not ask for images that no source could give.
    for (const auto& [other, fetches] : plan_.fetches) {
      for (const FetchOrder& fetch : fetches) {
        if (fetch.rank != failure.rank || fetch.saved != failure.saved) continue;
        memories_.unreachable.insert({fetch.rank, fetch.saved});
      }
    }
  }
  if (Readdress(report.place, report.address, &plan_)) has_changed_ = true;
  replication_.Readdress(report.place, report.address);
  memories_.reports[node] = std::move(report);
}

void CheckpointLedger::Forget(NodeId node) {
  if (memories_.reports.erase(node) > 0) has_changed_ = true;
  has_news_ = has_reports();
}

bool CheckpointLedger::TakeChanged() {
  const bool has_moved = replication_.TakeChanged();
  return std::exchange(has_changed_, false) || has_moved;
}

Instant CheckpointLedger::NextDeadline() const {
  if (!terms_.has_value() || !has_reports()) return Instant::Max();
  const Instant copies = std::min(replication_.NextDeadline(), last_steps_.NextDeadline());
  if (persist_.has_value()) return std::min(copies, persist_->since + kPersistMax);
  if (storage_wait_.is_waiting()) return std::min(copies, due_at_);
  const bool has_nothing = !complete_.has_value() && last_.step < 0;
  if (hold_.has_value() || has_nothing || planned_for_ == Generation()) return copies;
  return std::min(copies, due_at_);
}

bool CheckpointLedger::HasHeardAll(const World& world) const {
  for (const Seat& seat : world.seats) {
    const auto found = memories_.reports.find(seat.node);
    if (found == memories_.reports.end() || found->second.generation != world.generation)
      return false;
  }
  return true;
}

// The first reported terms are valid as long as any rank has them, because agents refuse ranks with
// other terms. A process without a launcher may return with new ones. At the end no process may be
// left that knows them: then the directory is the one that the journal names, and no checkpoint is
// removed, because the number to keep is unknown.
void CheckpointLedger::LearnTerms(const CheckpointView& view) {
  std::optional<CheckpointTerms> others;
  for (const auto& [node, report] : memories_.reports) {
    if (!report.terms.has_value()) continue;
    if (report.terms == terms_) return;
    if (!others.has_value()) others = report.terms;
  }
  const auto& left = view.book.not_stored;
  const bool is_known_from_before =
      view.is_ending && !terms_.has_value() && left.has_value() && !left->directory.empty();
  if (!others.has_value() && is_known_from_before) {
    MARK("the journal knows where the last step belongs");
    others = CheckpointTerms{.directory = left->directory, .keep = kKeepAll};
  }
  if (!others.has_value()) return;
  terms_ = others;
  has_changed_ = true;
}

// The latest of the steps that ranks kept for hold_, as their own nodes report them. Other nodes on
// a host report its images at other times, which would make every hold look too late.
std::optional<SavedStep> CheckpointLedger::HeldByAll(const World& world) const {
  std::map<uint32_t, SavedStep> first;
  for (const Seat& seat : world.seats) {
    const auto report = memories_.reports.find(seat.node);
    if (report == memories_.reports.end()) return std::nullopt;
    for (const MemoryImage& image : report->second.images) {
      const bool counts = image.saved.generation == world.generation.value() &&
                          image.saved >= *hold_ && !image.is_copy &&
                          image.rank.value() >= seat.first_rank &&
                          image.rank.value() < seat.first_rank + seat.rank_count;
      if (!counts) continue;
      const auto [at, is_new] = first.emplace(image.rank.value(), image.saved);
      at->second = std::min(at->second, image.saved);
    }
  }
  if (first.empty() || first.size() < world.world_size()) return std::nullopt;
  SavedStep most;
  for (const auto& [rank, saved] : first) most = std::max(most, saved);
  return most;
}

void CheckpointLedger::StartPersist(Instant now, const CheckpointView& view, SavedStep saved) {
  const ImageWriters writers = view.TakesWhatIsLeft() ? WritersLeft(view.members, memories_, saved)
                                                      : WritersIn(*view.world, memories_, saved);
  if (writers.empty()) return;  // the images are gone since
  Persist persist;
  persist.since = now;
  persist.order.saved = saved;
  persist.order.world_size = static_cast<uint32_t>(writers.size());
  persist.order.name = CheckpointNameOf(saved);
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> file_of;  // the lowest rank with the same file
  for (const auto& [rank, writer] : writers) {
    persist.node_of[rank] = writer.node;
    const auto key = std::pair(writer.file_root, writer.file_bytes);
    persist.order.shards.push_back({Rank(rank), Rank(file_of.emplace(key, rank).first->second)});
  }
  // Reports of an earlier try do not count for this one.
  for (auto& [node, report] : memories_.reports) {
    std::erase_if(report.shards, [](const ShardState& shard) { return !shard.problem.empty(); });
  }
  MARK("persist begins");
  persist_ = std::move(persist);
  hold_.reset();
  has_changed_ = true;
}

// Shards that nodes wrote under an earlier master are not ordered again. Failed ones are tried
// again.
std::optional<CheckpointFact> CheckpointLedger::BeginPersist(Instant now,
                                                             const CheckpointView& view,
                                                             SavedStep saved,
                                                             std::vector<std::string>* said) {
  StartPersist(now, view, saved);
  const bool is_there = persist_.has_value() && NotDurable().empty();
  return is_there ? WatchCommit(now, view, said) : std::nullopt;
}

std::set<uint32_t> CheckpointLedger::NotDurable() const {
  std::set<uint32_t> missing;
  for (const auto& [rank, node] : persist_->node_of) {
    const auto report = memories_.reports.find(node);
    const bool is_there = report != memories_.reports.end() &&
                          std::any_of(report->second.shards.begin(), report->second.shards.end(),
                                      [&](const ShardState& shard) {
                                        return shard.rank.value() == rank && shard.is_durable &&
                                               shard.saved == persist_->order.saved;
                                      });
    if (!is_there) missing.insert(rank);
  }
  return missing;
}

// True: the attempt is over.
bool CheckpointLedger::NoteShardProblem(Instant now, const CheckpointView& view,
                                        std::vector<std::string>* said) {
  const Persist& persist = *persist_;
  for (const auto& [rank, node] : persist.node_of) {
    const auto report = memories_.reports.find(node);
    if (report == memories_.reports.end()) continue;
    for (const ShardState& shard : report->second.shards) {
      if (shard.rank.value() != rank || shard.saved != persist.order.saved) continue;
      if (shard.problem.empty()) continue;
      // The image existed when it was reported, but the rank heard of the hold too late and
      // overwrote it.
      const bool is_gone = Find(report->second, Rank(rank), persist.order.saved) == nullptr;
      if (is_gone) AnnounceEarlier(0);
      // Ranks of a stopping job save on, so a newer step exists or will come.
      if (is_gone && view.is_ending && !report->second.is_final) {
        MARK("a rank saves on while its job ends");
        persist_.reset();
        has_changed_ = true;
        return true;
      }
      const bool is_late = is_gone && persist.is_held && !view.is_ending;
      GiveUp(now, "rank " + std::to_string(rank) + ": " + shard.problem,
             is_gone && !view.is_ending ? Fault::kMemory : Fault::kStorage, said);
      // Storage is not the cause, so there is no long pause; the next step is announced earlier.
      if (is_late) due_at_ = now + kPersistRetryMin, --failures_in_a_row_;
      return true;
    }
  }
  return false;
}

std::optional<CheckpointFact> CheckpointLedger::WatchPersist(Instant now,
                                                             const CheckpointView& view,
                                                             std::vector<std::string>* said) {
  if (NoteShardProblem(now, view, said)) return std::nullopt;
  const std::set<uint32_t> missing = NotDurable();
  if (now >= persist_->since + kPersistMax) {
    const std::string what =
        missing.empty() ? "its manifest" : "what " + RankText(missing) + " saved";
    GiveUp(now, what + " was not there after 30 minutes", Fault::kStorage, said);
    return std::nullopt;
  }
  return missing.empty() ? WatchCommit(now, view, said) : std::nullopt;
}

std::optional<CheckpointFact> CheckpointLedger::WatchCommit(Instant now, const CheckpointView& view,
                                                            std::vector<std::string>* said) {
  Persist& persist = *persist_;
  const bool was_ordered = persist.is_committing && memories_.reports.contains(persist.committer);
  if (!was_ordered) {
    // The committer is one of the writers, because when a job ends all other nodes may be gone.
    const auto writer = std::find_if(
        persist.node_of.begin(), persist.node_of.end(),
        [this](const auto& entry) { return memories_.reports.contains(entry.second); });
    if (writer == persist.node_of.end()) return std::nullopt;
    persist.is_committing = true;
    persist.committer = writer->second;
    has_changed_ = true;
  }
  const std::optional<CommitState>& commit = memories_.reports.at(persist.committer).commit;
  if (!commit.has_value() || commit->name != persist.order.name) return std::nullopt;
  if (!commit->is_done) {
    if (was_ordered && !commit->problem.empty())
      GiveUp(now, commit->problem, Fault::kStorage, said);
    return std::nullopt;
  }
  MARK("checkpoint committed");
  CheckpointCommitted committed = FactOf(persist.order, *commit, terms_->directory);
  persist_took_ = now - persist.since;
  failures_in_a_row_ = 0;
  storage_wait_.Succeed();
  problem_.clear();
  margin_ = std::max<int64_t>(1, margin_ / 2);
  branch_margin_ /= 2;
  last_ = committed.saved;
  due_at_ = now + Interval(view);  // the fact is recorded now
  persist_.reset();
  has_changed_ = true;
  return committed;
}

// Plans each node's sources of the restore, once all nodes have reported.
void CheckpointLedger::Plan(const RestoreDecided& decided, const World& world) {
  plan_for_ = decided.generation;
  plan_ = RestorePlan();
  has_changed_ = true;
  if (decided.from == RestoreOrder::From::kStorage) {
    plan_ = PlanFromStorage(world, memories_, decided.name);
  } else if (decided.from == RestoreOrder::From::kMemory) {
    std::optional<RestorePlan> plan = PlanFromMemory(world, memories_, decided.saved);
    plan_ = plan.has_value() ? *std::move(plan) : PlanForNobody(world, memories_, decided);
  }
}

// Decides once for each world, when all of its nodes have reported.
std::optional<CheckpointFact> CheckpointLedger::NextRestore(const CheckpointView& view) {
  persist_.reset();
  replication_.Reset();
  if (last_steps_.Reset()) has_changed_ = true;
  if (!HasHeardAll(*view.world)) return std::nullopt;
  RestoreDecided decided = DecideRestore(*view.world, view.book, view.job_id, memories_);
  const bool has_restored = view.book.restore.generation > Generation();
  if (!IsSure(decided, *view.world, memories_, has_restored)) return std::nullopt;
  Plan(decided, *view.world);
  return decided;
}

// The step to replicate; none while another step is, or soon will be, written to storage. Each of
// the two keeps an image in every arena, and training needs one more. With few slots or slow copies
// a rank that sends an image skips saves, and other ranks skip others. The hold then comes too
// late, and the next one must be announced earlier.
std::optional<SavedStep> CheckpointLedger::WorthReplicating() const {
  constexpr int64_t kNearHold = 2;
  if (persist_.has_value()) return persist_->order.saved;
  if (!hold_.has_value() || !complete_.has_value()) return complete_;
  SavedStep soon = *complete_;
  soon.step += std::max(kNearHold, margin_);
  soon.branch += branch_margin_;
  return soon >= *hold_ ? std::nullopt : complete_;
}

std::optional<CheckpointFact> CheckpointLedger::Next(Instant now, const CheckpointView& view,
                                                     std::vector<std::string>* said) {
  std::optional<CheckpointFact> fact = NextFact(now, view, said);
  has_news_ = false;
  goes_on_ = fact.has_value();
  looked_at_ = now;
  looked_for_ = GenerationOf(view);
  looked_with_ = view.members.size();
  const bool has_restored = terms_.has_value() && view.world != nullptr &&
                            view.book.restore.generation == view.world->generation;
  if (fact.has_value()) return fact;
  if (has_restored && !view.is_ending) {
    if (complete_.has_value()) memories_.unreachable.clear();
    replication_.Settle(now, *view.world, terms_->replicas, WorthReplicating(), &memories_, said);
  } else {
    replication_.Reset();
  }
  SettleEnd(view);
  return fact;
}

std::optional<CheckpointFact> CheckpointLedger::NextFact(Instant now, const CheckpointView& view,
                                                         std::vector<std::string>* said) {
  NoteFormerMaster(view.book);
  LearnTerms(view);
  last_steps_.Pass(now);
  if (std::exchange(was_ending_, view.is_ending) != view.is_ending) {
    has_changed_ = true;
    failures_in_a_row_ = 0;  // the last step gets a try of its own
  }
  if (view.TakesWhatIsLeft()) complete_ = NewestLeft(view.members, view.book, memories_);
  lost_at_end_ = view.is_ending ? NewestLost(view.book) : std::nullopt;
  if (!terms_.has_value() || view.world == nullptr) {
    persist_.reset();
    return std::nullopt;
  }
  for (const auto& [node, report] : memories_.reports) {
    for (const std::string& name : report.damaged) {
      if (IsDamaged(view.book, name)) continue;
      has_changed_ = true;
      return CheckpointDamaged{name, node, ""};
    }
  }
  if (view.book.restore.generation < view.world->generation && !view.is_ending) {
    return NextRestore(view);
  }
  if (!view.TakesWhatIsLeft()) complete_ = NewestSavedBy(*view.world, memories_);
  NoteWhole(now);
  // For a new master: ranks that have not restored yet keep the others waiting.
  const bool is_planned = plan_for_ == view.book.restore.generation || view.is_ending;
  if (!is_planned && HasHeardAll(*view.world)) Plan(view.book.restore, *view.world);
  if (HasLostWriter(view)) {
    MARK("a writer is lost and nobody waits for it");
    persist_.reset();
    has_changed_ = true;
  }
  if (persist_.has_value()) {
    if (auto fact = WatchPersist(now, view, said)) return fact;
  }
  if (persist_.has_value()) return std::nullopt;
  const bool is_patient = IsAwaitedWithPatience(view);
  storage_wait_.Await(is_patient);
  if (auto fact = NextRefusal(now, view)) return fact;
  const bool are_all_there = AreAllThere(view, memories_.reports);
  if (!view.is_ending && !are_all_there) return std::nullopt;
  const bool is_new = IsNewestNotStored(view) && !IsEndedWithout(view.book, *complete_);
  bool flush = view.is_ending;
  for (const auto& [node, report] : memories_.reports) {
    flush =
        flush || (report.flush.has_value() && complete_.has_value() && *report.flush <= *complete_);
  }
  // A step for which a rank waits is tried again sooner than one that is only due.
  const uint32_t doublings = std::min(failures_in_a_row_, kPersistDoublingsMax + 1);
  const Duration backoff = kPersistRetryMin * (int64_t{1} << (doublings == 0 ? 0 : doublings - 1));
  const bool may_flush = failures_in_a_row_ == 0 ||
                         now >= (is_patient ? due_at_ : due_at_ - backoff + kPersistRetryMin);
  if (flush && is_new && may_flush) return BeginPersist(now, view, *complete_, said);
  if (!are_all_there) return std::nullopt;
  const std::optional<CheckpointCommitted>& stored = view.book.committed;
  const bool is_settled =
      last_steps_.Look(now, *view.world, memories_, view.has_ended,
                       stored.has_value() ? std::optional(stored->saved) : std::nullopt);
  if (is_settled) has_changed_ = true;
  // The newest complete step is written to storage before waiting ranks are told.
  if (!last_steps_.why().empty() && is_new && may_flush) {
    const std::optional<CheckpointFact> fact = BeginPersist(now, view, *complete_, said);
    if (persist_.has_value() || fact.has_value()) {
      last_steps_.Reset();
      return fact;
    }
  }
  if (!view.is_ending) PlanHold(now, view);
  if (!hold_.has_value() || view.is_ending) return std::nullopt;
  const std::optional<SavedStep> held = HeldByAll(*view.world);
  if (!held.has_value()) return std::nullopt;
  for (const Seat& seat : view.world->seats) {
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      if (Find(memories_.reports.at(seat.node), Rank(seat.first_rank + i), *held) != nullptr)
        continue;
      // A rank heard of the hold too late and kept another step than the others.
      MARK("hold came too late");
      AnnounceEarlier(held->branch - hold_->branch);
      hold_ = Ahead(*held);
      hold_at_ = now;
      has_changed_ = true;
      return std::nullopt;
    }
  }
  const std::optional<CheckpointFact> fact = BeginPersist(now, view, *held, said);
  if (persist_.has_value()) persist_->is_held = true;
  return fact;
}

}  // namespace paceline::core
