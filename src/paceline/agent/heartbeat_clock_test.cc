#include "paceline/agent/heartbeat_clock.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(HeartbeatClock, KeepsItsRateAlthoughBeatsComeLate) {
  HeartbeatClock clock(Duration::Milliseconds(100));
  EXPECT_EQ(clock.Next(1000 * kMs), 1000 * kMs);
  clock.Came(1030 * kMs);
  EXPECT_EQ(clock.Next(1030 * kMs), 1100 * kMs);
  clock.Came(1101 * kMs);
  EXPECT_EQ(clock.TakeLateness(), Duration::Milliseconds(30));
  EXPECT_EQ(clock.TakeLateness(), Duration());
}

TEST(HeartbeatClock, SkipsBeatsThatAFrozenProcessMissed) {
  HeartbeatClock clock(Duration::Milliseconds(100));
  (void)clock.Next(1000 * kMs);
  clock.Came(9000 * kMs);
  EXPECT_EQ(clock.Next(9000 * kMs), 9000 * kMs);
  clock.set_interval(Duration::Seconds(1));
  EXPECT_EQ(clock.Next(9001 * kMs), 10'000 * kMs);
}

}  // namespace
}  // namespace paceline::agent
