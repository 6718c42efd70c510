#include <gtest/gtest.h>

#include <numeric>

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

SimulatedStep Simulated(const std::vector<StageTime>& stages, uint32_t micro_batches,
                        const Schedule& schedule) {
  const auto step = Simulate(stages, micro_batches, schedule);
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
    std::vector<StageTime> times;
    for (uint32_t i = 0; i < stages; ++i) times.push_back({1.0 + i, 2.0 + i, 0.5, 1});
    for (uint32_t micro_batches = 1; micro_batches < 9; ++micro_batches) {
      const SimulatedStep step = Simulated(times, micro_batches, *schedule);
      for (uint32_t i = 0; i < stages; ++i) {
        EXPECT_EQ(step.in_flight[i], schedule->in_flight(i, stages, micro_batches));
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
          [](uint32_t stage, uint32_t, uint32_t) {
            return stage == 0 ? std::vector<Pass>{{0, false}, {0, true}, {1, false}, {1, true}}
                              : std::vector<Pass>{{0, false}, {1, false}, {0, true}, {1, true}};
          },
      .in_flight = [](uint32_t, uint32_t, uint32_t) { return 2u; }};
  EXPECT_FALSE(Simulate({{1, 2, 0, 0}, {1, 2, 0, 0}}, 2, knot).has_value());
}

}  // namespace
}  // namespace paceline::plan
