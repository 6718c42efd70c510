#include "paceline/sim/lease/stream_world.h"

#include <gtest/gtest.h>

namespace paceline::sim {
namespace {

TEST(StreamWorldTest, EveryRecordCountsOnceUnderEverySchedule) {
  uint64_t faults = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const LeaseOutcome outcome = RunStreamWorld(seed, StreamCanary::kNone);
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    faults += outcome.faults;
  }
  EXPECT_GT(faults, 3'000u) << "the schedules are as hard as they claim";
}

TEST(StreamWorldTest, WithoutFaultsNothingFails) {
  const LeaseLimits none{.without = (1u << std::size(kLeaseFaults)) - 1};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RunStreamWorld(seed, StreamCanary::kNone, none).wrong, "") << seed;
  }
}

TEST(StreamWorldTest, TheSameSeedGivesTheSameWorld) {
  const LeaseOutcome one = RunStreamWorld(3, StreamCanary::kNone);
  const LeaseOutcome two = RunStreamWorld(3, StreamCanary::kNone);
  EXPECT_EQ(one.unseed, two.unseed);
  EXPECT_EQ(one.events, two.events);
}

TEST(StreamWorldTest, EachCanaryIsSeen) {
  for (int number = 1; number < kStreamCanaries; ++number) {
    int seen = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      seen += RunStreamWorld(seed, static_cast<StreamCanary>(number)).wrong.empty() ? 0 : 1;
    }
    EXPECT_GT(seen, 0) << "canary " << number;
  }
}

}  // namespace
}  // namespace paceline::sim
