// The arena of a simulated rank; and skipping saves that leave no trace changes nothing.

#include "paceline/sim/checkpoint/arena.h"

#include <optional>
#include <set>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"

namespace paceline::sim {
namespace {

void SaveOne(SimArena& arena, int64_t step) {
  const std::optional<uint32_t> slot = arena.Begin({1, step});
  if (slot.has_value()) arena.Seal(*slot, {.saved = {1, step}, .content = 7});
}

std::set<int64_t> StepsIn(const SimArena& arena) {
  std::set<int64_t> steps;
  for (const SimImage* image : arena.Sealed()) steps.insert(image->saved.step);
  return steps;
}

TEST(Arena, AWriterThatDiesLeavesTheOthersWhole) {
  SimArena arena(3);
  for (int64_t step = 1; step <= 5; ++step) SaveOne(arena, step);
  ASSERT_TRUE(arena.Begin({1, 6}).has_value());
  EXPECT_EQ(StepsIn(arena), (std::set<int64_t>{4, 5}));
  arena.ForgetUnfinished();
  SaveOne(arena, 5);
  EXPECT_TRUE(StepsIn(arena).contains(5));
}

TEST(Arena, WhatIsHeldOrClaimedStays) {
  SimArena arena(3);
  arena.SetHold(SavedStep{1, 3});
  for (int64_t step = 1; step <= 9; ++step) SaveOne(arena, step);
  EXPECT_TRUE(StepsIn(arena).contains(3));
  ASSERT_TRUE(arena.BeginRead({1, 3}));
  arena.SetHold(std::nullopt);
  for (int64_t step = 10; step <= 20; ++step) SaveOne(arena, step);
  EXPECT_TRUE(StepsIn(arena).contains(3));
  arena.EndRead({1, 3});
  for (int64_t step = 21; step <= 30; ++step) SaveOne(arena, step);
  EXPECT_FALSE(StepsIn(arena).contains(3));
}

TEST(Arena, SavesThatAreLeftOutLeaveNoTrace) {
  Prng prng(20);
  for (int round = 0; round < 20'000; ++round) {
    const auto slots = static_cast<uint32_t>(prng.Between(2, 4));
    SimArena all(slots);
    SimArena few(slots);
    int64_t next = 1;
    for (int part = 0; part < 4; ++part) {
      const int64_t last = next + prng.Between(0, 40);
      std::optional<int64_t> hold;
      if (prng.Chance(2, 3)) hold = prng.Between(std::max<int64_t>(1, next - 3), last + 10);
      const auto from = hold.has_value() ? std::optional(SavedStep{1, *hold}) : std::nullopt;
      all.SetHold(from);
      few.SetHold(from);
      const SaveRun run{next, last, hold.value_or(next)};
      for (int64_t step = next; step <= last; ++step) SaveOne(all, step);
      for (int64_t i = next; i <= last; ++i) {
        i = run.Traced(i);
        SaveOne(few, i);
      }
      ASSERT_EQ(StepsIn(all), StepsIn(few)) << "round " << round;
      const std::set<int64_t> steps = StepsIn(all);
      if (prng.Chance(1, 3)) {
        const int64_t step = *steps.begin();
        all.BeginRead({1, step});
        few.BeginRead({1, step});
      } else if (prng.Chance(1, 2)) {
        all.ForgetReaders();
        few.ForgetReaders();
      }
      next = last + 1;
    }
  }
}

}  // namespace
}  // namespace paceline::sim
