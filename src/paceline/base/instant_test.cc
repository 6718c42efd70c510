#include "paceline/base/instant.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(DurationTest, ConvertsBetweenUnits) {
  EXPECT_EQ(Duration::Seconds(2), Duration::Milliseconds(2000));
  EXPECT_EQ(Duration::Milliseconds(3), Duration::Microseconds(3000));
  EXPECT_EQ(Duration::Microseconds(4), Duration::Nanoseconds(4000));
  EXPECT_EQ(Duration::Milliseconds(1500).ToSecondsF(), 1.5);
}

TEST(DurationTest, SaturatesInsteadOfOverflowing) {
  const Duration longest = Duration::Nanoseconds(INT64_MAX - 1);
  EXPECT_TRUE((longest + longest).is_infinite());
  EXPECT_TRUE((longest * 3).is_infinite());
  EXPECT_TRUE(Duration::Seconds(INT64_MAX).is_infinite());
  EXPECT_LT(longest * -3, Duration());
}

TEST(DurationTest, InfiniteStaysInfinite) {
  EXPECT_TRUE((Duration::Infinite() - Duration::Seconds(1)).is_infinite());
  EXPECT_TRUE((Duration::Infinite() + Duration::Seconds(-1)).is_infinite());
  EXPECT_TRUE((Duration::Infinite() / 2).is_infinite());
  EXPECT_LT(-Duration::Infinite(), Duration::Seconds(-1));
}

TEST(DurationTest, DividesIntoPartsAndCounts) {
  EXPECT_EQ(Duration::Seconds(1) / 4, Duration::Milliseconds(250));
  EXPECT_EQ(Duration::Seconds(1) / Duration::Milliseconds(300), 3);
  EXPECT_EQ(Duration::Seconds(1) % Duration::Milliseconds(300), Duration::Milliseconds(100));
}

TEST(InstantTest, NeverStaysNever) {
  EXPECT_EQ(Instant::Max() + Duration::Seconds(1), Instant::Max());
  EXPECT_EQ(Instant::Max() - Duration::Seconds(1), Instant::Max());
  EXPECT_EQ(Instant() + Duration::Infinite(), Instant::Max());
  EXPECT_TRUE((Instant::Max() - Instant()).is_infinite());
  EXPECT_EQ(Instant::Max() - Instant::Max(), Duration());
}

TEST(InstantTest, DifferenceUndoesSum) {
  const Instant start = Instant::FromNanoseconds(17);
  EXPECT_EQ((start + Duration::Seconds(3)) - start, Duration::Seconds(3));
  EXPECT_LT(start, start + Duration::Nanoseconds(1));
}

TEST(DurationTest, ReadsWell) {
  EXPECT_EQ(ToString(Duration()), "0 s");
  EXPECT_EQ(ToString(Duration::Nanoseconds(7)), "7 ns");
  EXPECT_EQ(ToString(Duration::Nanoseconds(1250)), "1.2 us");
  EXPECT_EQ(ToString(Duration::Microseconds(2500)), "2.5 ms");
  EXPECT_EQ(ToString(Duration::Milliseconds(250)), "250 ms");
  EXPECT_EQ(ToString(Duration::Milliseconds(1250)), "1.2 s");
  EXPECT_EQ(ToString(Duration::Seconds(3)), "3 s");
  EXPECT_EQ(ToString(Duration::Seconds(125)), "2 min 5 s");
  EXPECT_EQ(ToString(Duration::Seconds(12'000)), "3 h 20 min");
  EXPECT_EQ(ToString(Duration::Milliseconds(-20)), "-20 ms");
  EXPECT_EQ(ToString(Duration::Infinite()), "forever");
}

}  // namespace
}  // namespace paceline
