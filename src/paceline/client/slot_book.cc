#include "paceline/client/slot_book.h"

#include "paceline/client/memory_orders.h"

namespace paceline::client {

Result<SlotBook> SlotBook::Open(const std::string& path, std::string_view job_id,
                                std::string_view node) {
  Result<PageFile> page = PageFile::Open(path, PageAccess::kWrite);
  if (!page.ok()) return page.failure();
  const PageHeader& header = page->header();
  if (PageText(header.job_id) != job_id || PageText(header.node) != node) {
    const auto name = [](std::string_view job, std::string_view where) {
      return "job " + std::string(job) + ", node " + std::string(where);
    };
    return Failure{.kind = FailureKind::kNotOurs,
                   .message = "progress page " + path + " belongs to " +
                              name(PageText(header.job_id), PageText(header.node)) + ", not to " +
                              name(job_id, node)};
  }
  return SlotBook(std::move(*page));
}

Result<uint64_t> SlotBook::Begin(uint32_t slot, const SlotOwner& owner) {
  Result<PageSlot*> words = page_.Slot(slot);
  if (!words.ok()) return words.failure();
  PageSlot& target = **words;
  const uint64_t attempt = ClearSlot(target);
  target.generation.store(owner.generation, kRelaxed);
  target.rank.store(owner.rank, kRelaxed);
  target.local_rank.store(owner.local_rank, kRelaxed);
  target.how.store(owner.how, kRelaxed);
  target.spawn_monotonic_ns.store(MonotonicNanoseconds(), kRelaxed);
  target.state.store(SlotState::kStarting, kRelaxed);
  PublishAttempt(target, attempt);
  return attempt;
}

Result<void> SlotBook::Running(uint32_t slot, const SlotProcess& process) {
  Result<PageSlot*> words = page_.Slot(slot);
  if (!words.ok()) return words.failure();
  (*words)->pid.store(process.pid, kRelaxed);
  (*words)->start_time_ticks.store(process.start_time_ticks, kRelaxed);
  (*words)->state.store(SlotState::kRunning, kRelease);
  return {};
}

Result<void> SlotBook::Vacate(uint32_t slot) {
  Result<PageSlot*> words = page_.Slot(slot);
  if (!words.ok()) return words.failure();
  (*words)->state.store(SlotState::kEmpty, kRelease);
  return {};
}

Result<void> SlotBook::Exited(uint32_t slot, int32_t wait_status, uint64_t maxrss_kib) {
  Result<PageSlot*> words = page_.Slot(slot);
  if (!words.ok()) return words.failure();
  (*words)->wait_status.store(wait_status, kRelaxed);
  (*words)->exit_monotonic_ns.store(MonotonicNanoseconds(), kRelaxed);
  (*words)->maxrss_kib.store(maxrss_kib, kRelaxed);
  (*words)->exit_recorded.store(1, kRelease);
  (*words)->state.store(SlotState::kExited, kRelease);
  return {};
}

Result<SlotProcess> SlotBook::Occupant(uint32_t slot) const {
  Result<PageSlot*> words = page_.Slot(slot);
  if (!words.ok()) return words.failure();
  if ((*words)->state.load(std::memory_order_acquire) != SlotState::kRunning) return SlotProcess{};
  return SlotProcess{.pid = (*words)->pid.load(kRelaxed),
                     .start_time_ticks = (*words)->start_time_ticks.load(kRelaxed)};
}

}  // namespace paceline::client
