// When the checkpoint ledger sends the next step to storage.

#include <algorithm>
#include <cmath>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/ledger.h"

namespace paceline::core {
namespace {

constexpr Duration kIntervalMin = Duration::Seconds(10);
constexpr Duration kIntervalMax = Duration::Seconds(30 * 60);
// Assumed until the job has failed: each of thirty hosts fails once a week.
constexpr Duration kFailureEvery = Duration::Seconds(6 * 3600);
constexpr int64_t kMarginMax = 256;
// Branches that are shorter than the way of an order follow each other quickly. A branch that lasts
// this long is not one of them, and a hold counted in branches might never be reached.
constexpr Duration kBranchesMax = Duration::Seconds(30);

}  // namespace

Duration CheckpointLedger::Interval(const CheckpointView& view) const {
  if (terms_->policy.kind == PersistPolicy::Kind::kTime) return terms_->policy.time;
  // Young's first-order formula: sqrt(2 · cost · time between failures). Writing costs the training
  // only memory bandwidth; its cost is taken as a twentieth of its duration.
  const Duration between = view.failures == 0
                               ? kFailureEvery
                               : std::max(kIntervalMin, view.age / (view.failures + int64_t{1}));
  const double cost_s = persist_took_.ToSecondsF() / 20;
  const double seconds = std::sqrt(2 * cost_s * between.ToSecondsF());
  return std::clamp(Duration::Milliseconds(static_cast<int64_t>(seconds * 1000)), kIntervalMin,
                    kIntervalMax);
}

// The interval continues over worlds and masters. Otherwise a job that fails more often than the
// interval would never store a step. The master's clock never goes back, even if the wall clock
// does (see master/clock.h), so it can be compared with the times of records.
Instant CheckpointLedger::DueAfter(const CheckpointView& view) const {
  const bool has_stored = view.book.committed.has_value();
  if (!has_stored && !first_save_at_.has_value()) return Instant::Max();
  return (has_stored ? view.book.committed_at : *first_save_at_) + Interval(view);
}

// The first save under an earlier master is not in the journal. It was not before the job's first
// world, so the interval counts from there.
void CheckpointLedger::NoteFormerMaster(const CheckpointBook& book) {
  const bool is_first_look = looked_at_ == Instant();
  if (is_first_look && book.restore.generation > Generation()) first_save_at_ = book.begun_at;
}

bool CheckpointLedger::HasSaved(const World& world) const {
  return std::any_of(memories_.reports.begin(), memories_.reports.end(), [&](const auto& entry) {
    return std::any_of(entry.second.images.begin(), entry.second.images.end(),
                       [&](const MemoryImage& image) {
                         return image.saved.generation == world.generation.value();
                       });
  });
}

// The world's progress. Reports come at different times, and with quick steps no two may ever show
// the same step. So the newest save of any rank counts; before the first save, the restored step.
SavedStep CheckpointLedger::NewestSaved(const World& world) const {
  const uint64_t generation = world.generation.value();
  SavedStep newest;
  if (last_.generation == generation) newest = last_;
  for (const auto& [node, report] : memories_.reports) {
    for (const MemoryImage& image : report.images) {
      if (image.saved.generation == generation) newest = std::max(newest, image.saved);
    }
  }
  if (newest.step < 0) newest = {.generation = generation, .step = last_.step};
  return newest;
}

// A hold on a step behind the end of its branch falls on the first save of the next branch, however
// far ahead the step is. If whole branches pass before the ranks get the order, the margin must be
// counted in branches.
void CheckpointLedger::AnnounceEarlier(uint64_t branches) {
  margin_ = std::min(margin_ * 2, kMarginMax);
  if (branches < 2 && branch_margin_ == 0) return;
  MARK("a hold counts branches");
  const uint64_t most = static_cast<uint64_t>(kMarginMax);
  branch_margin_ = std::min(std::max(branch_margin_ * 2, branches), most);
}

SavedStep CheckpointLedger::Ahead(SavedStep newest) const {
  SavedStep ahead = newest;
  if (branch_margin_ > 0) {
    ahead.branch += branch_margin_;
    ahead.step = 0;
  } else {
    ahead.step += margin_;
  }
  return ahead;
}

// Announces the next save for storage when it is due. If a new branch starts before that save, the
// branch's first save goes to storage instead.
void CheckpointLedger::PlanHold(Instant now, const CheckpointView& view) {
  const World& world = *view.world;
  if (planned_for_ != world.generation) {
    planned_for_ = world.generation;
    last_ = view.book.restore.saved;
    due_at_ = DueAfter(view);
    failures_in_a_row_ = 0;  // the pauses between tries belong to the former world
    hold_.reset();
    margin_ = 1;
    branch_margin_ = 0;
    has_changed_ = true;
  }
  if (!first_save_at_.has_value() && HasSaved(world)) {
    first_save_at_ = now;
    if (failures_in_a_row_ == 0) due_at_ = DueAfter(view);
  }
  const SavedStep newest = NewestSaved(world);
  const bool is_far = hold_.has_value() && branch_margin_ > 0 && newest < *hold_;
  if (is_far && now >= hold_at_ + kBranchesMax) {
    MARK("a branch lasts after short ones");
    branch_margin_ = 0;
    hold_.reset();
  }
  // With an interval in steps the next hold is announced early, so it may be far away.
  const bool is_too_late = view.is_hurried && failures_in_a_row_ == 0 && !persist_.has_value() &&
                           hold_.has_value() && newest.step >= 0 && Ahead(newest) < *hold_;
  if (is_too_late) {
    MARK("a hold is brought forward");
    hold_.reset();
  }
  if (hold_.has_value() || persist_.has_value()) return;
  SavedStep hold = newest;
  if (view.is_hurried && failures_in_a_row_ == 0) {
    if (newest.step < 0) return;
    MARK("a step is stored for a change of the world");
    hold = Ahead(newest);
  } else if (terms_->policy.kind == PersistPolicy::Kind::kSteps) {
    if (failures_in_a_row_ > 0 && now < due_at_) return;
    if (branch_margin_ > 0) {
      hold = Ahead(newest);
    } else {
      const int64_t steps = std::max<int64_t>(terms_->policy.steps, 1);
      // `margin_` allows for orders that travel slowly.
      hold.step = newest.step < 0 ? steps : ((newest.step + margin_ - 1) / steps + 1) * steps;
    }
  } else {
    if (now < due_at_ || newest.step < 0) return;
    hold = Ahead(newest);
  }
  hold_ = hold;
  hold_at_ = now;
  has_changed_ = true;
}

}  // namespace paceline::core
