#include "paceline/wire/steady_waits.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "gtest/gtest.h"

namespace paceline::wire {
namespace {

constexpr timespec kWall{.tv_sec = 1'700'000'000, .tv_nsec = 900'000'000};
constexpr timespec kUptime{.tv_sec = 50, .tv_nsec = 200'000'000};

TEST(SteadyWaitsTest, ADeadlineIsAsFarAwayOnTheOtherClock) {
  const timespec at = OnMonotonicClock({1'700'000'002, 100'000'000}, kWall, kUptime);
  EXPECT_EQ(at.tv_sec, 51);
  EXPECT_EQ(at.tv_nsec, 400'000'000);
}

TEST(SteadyWaitsTest, ADeadlineInThePastStaysThere) {
  const timespec at = OnMonotonicClock({1'699'999'999, 950'000'000}, kWall, kUptime);
  EXPECT_EQ(at.tv_sec, 49);
  EXPECT_EQ(at.tv_nsec, 250'000'000);
  const timespec before_boot = OnMonotonicClock({1'600'000'000, 0}, kWall, kUptime);
  EXPECT_EQ(before_boot.tv_sec, 0);
  EXPECT_EQ(before_boot.tv_nsec, 0);
}

// What Abseil calls, with a deadline that is over and with one that is near.
TEST(SteadyWaitsTest, AWaitUntilATimeOfTheWallClockEnds) {
  for (const int64_t ahead : {-3600, 0}) {
    timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += ahead;
    int32_t word = 0;
    const long status =
        ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME,
                  0, &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
    EXPECT_EQ(status, -1);
    EXPECT_EQ(errno, ETIMEDOUT);
  }
}

}  // namespace
}  // namespace paceline::wire
