#include "paceline/client/session.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "paceline/client/memory_orders.h"

namespace paceline::client {

Result<Session> Session::Open(const SessionPlace& place) {
  Result<PageFile> page = PageFile::Open(place.page_path, PageAccess::kWrite);
  if (!page.ok()) return page.failure();
  Result<PageSlot*> slot = page->Slot(place.slot);
  if (!slot.ok()) return slot.failure();
  const uint64_t generation = (*slot)->generation.load(kRelaxed);
  if (((*slot)->attempt.load(std::memory_order_acquire) & kAttemptPreparing) != 0 ||
      generation != place.generation) {
    return Failure{.kind = FailureKind::kFenced,
                   .message = "slot " + std::to_string(place.slot) + " belongs to generation " +
                              std::to_string(generation) + ", this process to " +
                              std::to_string(place.generation)};
  }
  int64_t owner = 0;
  if (!(*slot)->writer_pid.compare_exchange_strong(owner, getpid()) && owner != getpid()) {
    return Failure{.kind = FailureKind::kNotOurs,
                   .message = "slot " + std::to_string(place.slot) + " is written by process " +
                              std::to_string(owner)};
  }
  return Session(std::move(*page), *slot);
}

void Session::NoteLoss(std::optional<double> loss) {
  const uint64_t flags = slot_->flags.load(kRelaxed) & ~kSlotLossTold;
  slot_->loss.store(loss.value_or(std::numeric_limits<double>::quiet_NaN()), kRelaxed);
  slot_->flags.store(loss.has_value() ? flags | kSlotLossTold : flags, kRelease);
}

void Session::NoteBad(const BadLoss& bad) {
  slot_->bad_step.store(bad.step, kRelaxed);
  slot_->bad_kind.store(static_cast<uint64_t>(bad.kind), kRelaxed);
  slot_->bad_value.store(bad.value, kRelaxed);
  slot_->usual_value.store(bad.usual, kRelaxed);
  slot_->bad_losses.store(bad.count, kRelease);
}

void Session::Report(int64_t step, uint64_t made) {
  const int64_t now = MonotonicNanoseconds();
  if (step > slot_->step.load(kRelaxed)) {
    slot_->last_step_monotonic_ns.store(now, kRelaxed);
    slot_->step.store(step, kRelaxed);
  }
  const uint64_t count = slot_->step_count.load(kRelaxed);
  if (count == 0) slot_->first_step_monotonic_ns.store(now, kRelaxed);
  slot_->step_count.store(count + made, kRelease);
}

void Session::Step(int64_t step, std::optional<double> loss, std::optional<double> norm) {
  const int64_t before = slot_->step.load(kRelaxed);
  uint64_t made = 1;
  const uint64_t flags = slot_->flags.load(kRelaxed);
  if ((flags & kSlotStepIsAbsolute) == 0) {
    // Replaces the count instead of continuing it, because the count may be higher than the
    // script's own step.
    slot_->step.store(-1, kRelaxed);
    // The hook has counted this attempt's steps up to this one.
    const auto counted = static_cast<int64_t>(slot_->step_count.load(kRelaxed));
    made = counted > 0 ? 0U : 1U;
    const int64_t first = std::max<int64_t>(0, step - std::max<int64_t>(0, counted - 1));
    slot_->first_step.store(static_cast<uint64_t>(first) + 1, kRelaxed);
    slot_->flags.store(flags | kSlotStepIsAbsolute, kRelease);
  } else if (step > before && before >= 0) {
    made = static_cast<uint64_t>(step - before);  // the script may tell each tenth step
  } else if (step == before && !loss.has_value()) {
    made = 0;
  }
  // A save reports its step, too, perhaps after the script did so with a loss.
  const bool is_reported = step == slot_->step.load(kRelaxed);
  if (loss.has_value() || !is_reported) NoteLoss(loss);
  if (const auto bad = losses_.Take(step, loss, norm); bad.has_value()) NoteBad(*bad);
  Report(step, made);
}

void Session::CountStep() {
  if ((slot_->flags.load(kRelaxed) & kSlotStepIsAbsolute) != 0) return;
  Report(slot_->step.load(kRelaxed) < 0 ? 1 : slot_->step.load(kRelaxed) + 1, 1);
}

void Session::BeganAt(int64_t step) {
  const uint64_t flags = slot_->flags.load(kRelaxed);
  const bool is_late = slot_->step_count.load(kRelaxed) > 0;
  if (step < 0 || is_late || (flags & kSlotStepIsAbsolute) != 0) return;
  slot_->step.store(step, kRelaxed);
  slot_->flags.store(flags | kSlotStepIsOwn, kRelease);
}

void Session::EndsAt(int64_t steps) {
  slot_->steps_total.store(static_cast<uint64_t>(std::max<int64_t>(0, steps)), kRelaxed);
}

void Session::FileSaved() { slot_->saved_files.fetch_add(1, kRelease); }

void Session::Saved(int64_t step) {
  if (step > slot_->saved_step.load(kRelaxed)) slot_->saved_step.store(step, kRelease);
}

void Session::Entered() { slot_->entered_monotonic_ns.store(MonotonicNanoseconds(), kRelease); }

void Session::HookInstalled() {
  slot_->flags.store(slot_->flags.load(kRelaxed) | kSlotStepHook, kRelease);
}

void Session::SharesBatch() {
  slot_->flags.store(slot_->flags.load(kRelaxed) | kSlotSharesBatch, kRelease);
}

int64_t Session::Failed() {
  const int64_t now = MonotonicNanoseconds();
  slot_->error_monotonic_ns.store(now, kRelease);
  return now;
}

void Session::LinesDropped(uint64_t count) {
  slot_->lines_dropped.fetch_add(count, std::memory_order_relaxed);
}

void Session::PortTaken() { slot_->port_taken.store(1, kRelease); }

int64_t Session::step() const { return slot_->step.load(kRelaxed); }

uint64_t Session::step_count() const { return slot_->step_count.load(kRelaxed); }

}  // namespace paceline::client
