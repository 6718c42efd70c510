#include "paceline/model/progress_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace paceline {
namespace {

// Memory as mmap gives it: zeroed, aligned to a page.
struct Memory {
  explicit Memory(uint32_t slots) : blocks(PageBytes(slots) / kPageSlotBytes) {}
  std::span<std::byte> bytes() {
    return {reinterpret_cast<std::byte*>(blocks.data()), blocks.size() * kPageSlotBytes};
  }
  struct alignas(64) Block {
    std::byte bytes[kPageSlotBytes] = {};
  };
  std::vector<Block> blocks;
};

PageIdentity Identity(uint32_t slots) {
  return {.job_id = "j-1", .node = "node0", .boot_id = "b", .slot_count = slots};
}

PageHeader& Formatted(Memory& memory, uint32_t slots) {
  EXPECT_TRUE(FormatPage(memory.bytes(), Identity(slots)));
  return *reinterpret_cast<PageHeader*>(memory.bytes().data());
}

TEST(ProgressPage, BeginsWithItsMagicBytes) {
  Memory memory(1);
  Formatted(memory, 1);
  EXPECT_EQ(0, std::memcmp(memory.bytes().data(), "PLPAGE1\0", 8));
}

TEST(ProgressPage, NewPageSaysThatNothingHappened) {
  Memory memory(2);
  const PageHeader& page = Formatted(memory, 2);
  EXPECT_EQ("j-1", PageText(page.job_id));
  EXPECT_EQ("node0", PageText(page.node));
  const auto reading = ReadSlot(SlotOf(page, 1));
  ASSERT_TRUE(reading.has_value());
  EXPECT_EQ(SlotState::kEmpty, reading->state);
  EXPECT_EQ(-1, reading->rank);
  EXPECT_EQ(-1, reading->step);
  EXPECT_EQ(-1, reading->saved_step);
  EXPECT_TRUE(std::isnan(reading->loss));
  EXPECT_FALSE(reading->wait_status.has_value());
}

TEST(ProgressPage, ANewAttemptHasNoBadLosses) {
  Memory memory(1);
  PageSlot& slot = SlotOf(Formatted(memory, 1), 0);
  slot.bad_losses.store(2);
  slot.bad_step.store(9);
  slot.bad_kind.store(1);
  slot.bad_value.store(3);
  slot.usual_value.store(2);
  EXPECT_EQ(2u, ReadSlot(slot)->bad_losses);
  PublishAttempt(slot, ClearSlot(slot));
  const auto reading = ReadSlot(slot);
  EXPECT_EQ(0u, reading->bad_losses + reading->bad_kind);
  EXPECT_EQ(0, reading->bad_step);
  EXPECT_EQ(0, reading->bad_value + reading->usual_value);
}

TEST(ProgressPage, SlotUnderPreparationCannotBeRead) {
  Memory memory(1);
  PageSlot& slot = SlotOf(Formatted(memory, 1), 0);
  const uint64_t attempt = ClearSlot(slot);
  EXPECT_EQ(1u, attempt);
  EXPECT_FALSE(ReadSlot(slot).has_value());
  PublishAttempt(slot, attempt);
  EXPECT_EQ(1u, ReadSlot(slot)->attempt);
}

TEST(ProgressPage, StarterThatDiesWhilePreparingDoesNotReuseTheNumber) {
  Memory memory(1);
  PageSlot& slot = SlotOf(Formatted(memory, 1), 0);
  PublishAttempt(slot, ClearSlot(slot));
  ClearSlot(slot);  // without PublishAttempt
  EXPECT_EQ(2u, ClearSlot(slot));
}

TEST(ProgressPage, ExitIsSeenOnlyOnceItIsRecorded) {
  Memory memory(1);
  PageSlot& slot = SlotOf(Formatted(memory, 1), 0);
  slot.wait_status.store(9);
  EXPECT_FALSE(ReadSlot(slot)->wait_status.has_value());
  slot.exit_recorded.store(1, std::memory_order_release);
  EXPECT_EQ(9, ReadSlot(slot)->wait_status);
}

TEST(ProgressPage, RefusesNamesAndCountsOutOfBounds) {
  Memory memory(1);
  PageIdentity identity = Identity(0);
  EXPECT_FALSE(FormatPage(memory.bytes(), identity));
  EXPECT_FALSE(FormatPage(memory.bytes(), Identity(kPageSlotsMax + 1)));
  EXPECT_FALSE(FormatPage(memory.bytes(), Identity(2)));  // the memory holds one slot
  const std::string long_name(kPageNameMax + 1, 'n');
  identity = Identity(1);
  identity.node = long_name;
  EXPECT_FALSE(FormatPage(memory.bytes(), identity));
}

TEST(ProgressPage, HostileFilesAreRefusedWithTheReason) {
  Memory memory(1);
  std::string_view why;
  EXPECT_EQ(nullptr, CheckPage(memory.bytes(), &why));
  EXPECT_EQ("this is not a progress page", why);
  PageHeader& page = Formatted(memory, 1);
  EXPECT_EQ(&page, CheckPage(memory.bytes(), &why));
  EXPECT_EQ(nullptr, CheckPage(memory.bytes().first(100), &why));
  EXPECT_EQ(nullptr, CheckPage(memory.bytes().first(kPageHeaderBytes), &why));
  EXPECT_EQ("the file is shorter than its slots", why);
  page.slot_count = kPageSlotsMax + 1;
  EXPECT_EQ(nullptr, CheckPage(memory.bytes(), &why));
  page.slot_count = 1;
  page.slot_bytes = 8;
  EXPECT_EQ(nullptr, CheckPage(memory.bytes(), &why));
  page.slot_bytes = kPageSlotBytes;
  page.version = 2;
  EXPECT_EQ(nullptr, CheckPage(memory.bytes(), &why));
  EXPECT_EQ("the page has another version", why);
}

}  // namespace
}  // namespace paceline
