#include <gtest/gtest.h>

#include <numeric>

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

SimulatedStep Simulated(const std::vector<StageTime>& times, uint32_t micro_batches,
                        const Schedule& schedule, uint32_t chunks = 1) {
  const auto stages = static_cast<uint32_t>(times.size()) / chunks;
  const auto step = Simulate(times, {stages, micro_batches, chunks}, schedule);
  EXPECT_TRUE(step.has_value());
  return step.value_or(SimulatedStep{});
}

TEST(Schedule, EqualStagesTakeTheTextbookTime) {
  for (const Schedule* schedule : {&kGPipe, &kOneForwardOneBackward}) {
    for (const uint32_t stages : {2u, 3u, 8u}) {
      for (const uint32_t micro_batches : {1u, 4u, 16u}) {
        const std::vector<StageTime> times(stages, {.forward = 1, .backward = 2});
        const SimulatedStep step = Simulated(times, micro_batches, *schedule);
        EXPECT_DOUBLE_EQ(step.seconds, 3.0 * (micro_batches + stages - 1)) << schedule->name;
      }
    }
  }
}

TEST(Schedule, HoldsNoMoreThanItSays) {
  for (const Schedule* schedule : Schedules()) {
    const uint32_t stages = schedule == &kNoSchedule ? 1 : 4;
    const uint32_t chunks = schedule == &kInterleaved || schedule == &kZeroBubble ? 3 : 1;
    std::vector<StageTime> times;
    for (uint32_t i = 0; i < stages * chunks; ++i) times.push_back({1.0 + i, 2.0 + i, 0.5, 1, 1});
    for (uint32_t micro_batches = 1; micro_batches < 9; ++micro_batches) {
      const PipelineSize size = {stages, micro_batches, chunks};
      if (chunks > 1 && !schedule->refuses(size).empty()) continue;
      const SimulatedStep step = Simulated(times, micro_batches, *schedule, chunks);
      for (uint32_t i = 0; i < stages; ++i) {
        EXPECT_EQ(step.in_flight[i], schedule->in_flight(i, size));
      }
    }
  }
}

TEST(Schedule, OrdersThatWaitForEachOtherAreFound) {
  // The first stage wants all gradients back before its second micro-batch, the second wants both
  // micro-batches first.
  const Schedule knot = {
      .name = "knot",
      .order =
          [](uint32_t stage, const PipelineSize&) {
            using enum PassKind;
            return stage == 0 ? std::vector<Pass>{{0, kForward},
                                                  {0, kBackward},
                                                  {1, kForward},
                                                  {1, kBackward}}
                              : std::vector<Pass>{
                                    {0, kForward}, {1, kForward}, {0, kBackward}, {1, kBackward}};
          },
      .in_flight = [](uint32_t, const PipelineSize&) { return 2u; },
      .refuses = [](const PipelineSize&) { return std::string(); }};
  EXPECT_FALSE(Simulate({{1, 2, 0, 0, 0}, {1, 2, 0, 0, 0}}, {2, 2, 1}, knot).has_value());
}

// The bubble is (p - 1) ÷ (v m) of the work, v times smaller than that of 1F1B.
TEST(Schedule, InterleavedStagesWaitForChunks) {
  for (const uint32_t stages : {2u, 4u, 8u}) {
    for (const uint32_t chunks : {2u, 3u, 6u}) {
      for (const uint32_t rounds : {1u, 2u, 5u}) {
        const uint32_t micro_batches = rounds * stages;
        const std::vector<StageTime> times(stages * chunks, {.forward = 1, .backward = 2});
        const SimulatedStep step = Simulated(times, micro_batches, kInterleaved, chunks);
        EXPECT_DOUBLE_EQ(step.seconds, 3.0 * (micro_batches * chunks + stages - 1));
      }
    }
  }
}

// If inputs and weights take as long as a forward pass, 1F1B waits for 3 (p - 1) of them and this
// order for p - 1 (the paper's table 1).
TEST(Schedule, WeightsFillTheWaiting) {
  for (const uint32_t stages : {2u, 4u, 8u}) {
    for (const uint32_t micro_batches : {8u, 16u, 40u}) {
      const std::vector<StageTime> times(stages, {.forward = 1, .backward = 2, .weight = 1});
      const SimulatedStep step = Simulated(times, micro_batches, kZeroBubble);
      EXPECT_DOUBLE_EQ(step.seconds, 3.0 * micro_batches + stages - 1) << stages;
      for (uint32_t i = 0; i < stages; ++i) {
        EXPECT_EQ(step.in_flight[i], stages) << "as much as 1F1B's first stage";
      }
    }
  }
}

TEST(Schedule, OrdersInPartsNeverWaitForThemselves) {
  for (uint32_t stages = 2; stages < 7; ++stages) {
    for (uint32_t chunks = 1; chunks < 5; ++chunks) {
      for (uint32_t micro_batches = 1; micro_batches < 25; ++micro_batches) {
        const PipelineSize size = {stages, micro_batches, chunks};
        const std::vector<StageTime> times(stages * chunks, {1, 2, 0.1, 1, 0});
        if (!kZeroBubble.refuses(size).empty()) continue;
        const auto step = Simulate(times, size, kZeroBubble);
        ASSERT_TRUE(step.has_value()) << stages << " × " << chunks << ", " << micro_batches;
        for (uint32_t i = 0; i < stages; ++i) {
          EXPECT_EQ(step->in_flight[i], kZeroBubble.in_flight(i, size));
          EXPECT_DOUBLE_EQ(step->busy[i], 3.0 * micro_batches * chunks);
        }
      }
    }
  }
}

TEST(Schedule, InterleavedOrdersNeverWaitForThemselves) {
  for (uint32_t stages = 2; stages < 7; ++stages) {
    for (uint32_t chunks = 2; chunks < 5; ++chunks) {
      for (uint32_t micro_batches = 1; micro_batches < 25; ++micro_batches) {
        const PipelineSize size = {stages, micro_batches, chunks};
        const std::vector<StageTime> times(stages * chunks, {1, 2, 0.1, 0, 0});
        if (!kInterleaved.refuses(size).empty()) continue;
        EXPECT_TRUE(Simulate(times, size, kInterleaved).has_value())
            << stages << " × " << chunks << ", " << micro_batches;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::plan
