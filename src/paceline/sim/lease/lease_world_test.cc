#include "paceline/sim/lease/lease_world.h"

#include <gtest/gtest.h>

namespace paceline::sim {
namespace {

TEST(LeaseWorldTest, EverySampleCountsOnceUnderEverySchedule) {
  uint64_t faults = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const LeaseOutcome outcome = RunLeaseWorld(seed, LeaseCanary::kNone);
    ASSERT_EQ(outcome.wrong, "") << "seed " << seed;
    faults += outcome.faults;
  }
  EXPECT_GT(faults, 4'000u) << "the schedules are as hard as they claim";
}

// In these worlds a worker must open twice in a row and drops a lease in between.
TEST(LeaseWorldTest, ALeaseThatNobodyHasIsNotWaitedFor) {
  for (const uint64_t seed : {687'683, 713'143}) {
    EXPECT_EQ(RunLeaseWorld(seed, LeaseCanary::kNone).wrong, "") << "seed " << seed;
  }
}

TEST(LeaseWorldTest, TheSameSeedGivesTheSameWorld) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const LeaseOutcome one = RunLeaseWorld(seed, LeaseCanary::kNone);
    const LeaseOutcome two = RunLeaseWorld(seed, LeaseCanary::kNone);
    EXPECT_EQ(one.unseed, two.unseed);
    EXPECT_EQ(one.events, two.events);
  }
}

TEST(LeaseWorldTest, EachCanaryIsSeen) {
  for (int number = 1; number < kLeaseCanaries; ++number) {
    int seen = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      seen += RunLeaseWorld(seed, static_cast<LeaseCanary>(number)).wrong.empty() ? 0 : 1;
    }
    EXPECT_GT(seen, 0) << "canary " << number;
  }
}

}  // namespace
}  // namespace paceline::sim
