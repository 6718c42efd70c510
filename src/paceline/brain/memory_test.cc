// Growth of memory: seen where it is, not seen where it is not, and met in time.

#include "paceline/brain/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "paceline/base/prng.h"

namespace paceline::brain {
namespace {

constexpr double kMiB = 1 << 20;

double PartOf(Prng& prng) { return static_cast<double>(prng.Below(1'000'000)) / 1e6; }

// Windows of 10 s that begin at `first` MiB, and grow by `each` MiB.
std::vector<MemoryWindow> Line(double first, double each, size_t count) {
  std::vector<MemoryWindow> windows;
  for (size_t i = 0; i < count; ++i) {
    windows.push_back({.at = 10.0 * static_cast<double>(i),
                       .bytes = (first + each * static_cast<double>(i)) * kMiB});
  }
  return windows;
}

TEST(MemoryTest, ALineIsFoundExactly) {
  const auto growth = GrowthOf(Line(1000, 20, 20));
  ASSERT_TRUE(growth.has_value());
  EXPECT_NEAR(growth->bytes_per_second / kMiB, 2, 1e-9);
  EXPECT_NEAR(growth->bytes / kMiB, 1380, 1e-6);
  EXPECT_NEAR(growth->Until(2380 * kMiB), 500, 1e-6);
  EXPECT_EQ(growth->Until(1000 * kMiB), 0);
  EXPECT_NEAR(growth->After(10) / kMiB, 1400, 1e-6);
}

TEST(MemoryTest, FewWindowsAndFlatOnesAreNoGrowth) {
  EXPECT_FALSE(GrowthOf({}).has_value());
  EXPECT_FALSE(GrowthOf(Line(1000, 20, kMemoryWindowsLeast - 1)).has_value());
  EXPECT_FALSE(GrowthOf(Line(1000, 0, 40)).has_value());
  EXPECT_FALSE(GrowthOf(Line(1000, -5, 40)).has_value());
  EXPECT_FALSE(GrowthOf(Line(100'000, 0.1, 40)).has_value());  // less than a hundredth in all
  std::vector<MemoryWindow> at_once(20, {.at = 5, .bytes = 1});
  EXPECT_FALSE(GrowthOf(at_once).has_value());
}

// Wherever in the windows a buffer is made once, it is no growth.
TEST(MemoryTest, OneStepIsNoGrowth) {
  for (size_t at = 1; at < 30; ++at) {
    std::vector<MemoryWindow> windows = Line(1000, 0, 30);
    for (size_t i = at; i < windows.size(); ++i) windows[i].bytes *= 1.5;
    EXPECT_FALSE(GrowthOf(windows).has_value()) << at;
  }
}

TEST(MemoryTest, ASpikeInEachTenthWindowDoesNotBendTheLine) {
  std::vector<MemoryWindow> windows = Line(1000, 20, 40);
  for (size_t i = 5; i < windows.size(); i += 10) windows[i].bytes += 800 * kMiB;
  const auto growth = GrowthOf(windows);
  ASSERT_TRUE(growth.has_value());
  EXPECT_NEAR(growth->bytes_per_second / kMiB, 2, 0.3);
  windows = Line(1000, 0, 40);
  for (size_t i = 5; i < windows.size(); i += 10) windows[i].bytes += 800 * kMiB;
  EXPECT_FALSE(GrowthOf(windows).has_value());
}

TEST(MemoryTest, NoiseAloneIsSeldomGrowth) {
  Prng prng(4);
  int seen = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    std::vector<MemoryWindow> windows = Line(1000, 0, 24);
    for (MemoryWindow& window : windows) window.bytes += 100 * kMiB * PartOf(prng);
    seen += GrowthOf(windows).has_value() ? 1 : 0;
  }
  EXPECT_LE(seen, 10);
}

// A line with noise of a tenth of the growth: its time until the limit is right within a fifth.
TEST(MemoryTest, TheTimeUntilTheLimitHoldsWithNoise) {
  Prng prng(6);
  for (int draw = 0; draw < 200; ++draw) {
    const double each = 5 + 20 * PartOf(prng);
    std::vector<MemoryWindow> windows = Line(1000, each, 24);
    for (MemoryWindow& window : windows) window.bytes += 2.4 * each * kMiB * PartOf(prng);
    const auto growth = GrowthOf(windows);
    ASSERT_TRUE(growth.has_value()) << draw;
    const double truth = 500;  // seconds after the last window
    const double limit = (1000 + each * 23 + each * truth / 10) * kMiB;
    EXPECT_NEAR(growth->Until(limit), truth, 100) << draw;
  }
}

TEST(MemoryTest, ALimitIsDueTwiceTheTimeOfAChangeBefore) {
  const MemoryGrowth growth{.bytes_per_second = 1, .bytes = 1000};
  MemoryQuestion question{
      .limit = 1300, .next_save = 100, .change = 50, .outlook = 10'000, .most = 100'000};
  EXPECT_FALSE(DueLimit(growth, question).has_value());  // exactly 300 s
  question.limit = 1299;
  const auto due = DueLimit(growth, question);
  ASSERT_TRUE(due.has_value());
  EXPECT_NEAR(*due, 1.1 * 11'000, 1e-6);
  question.most = 5000;
  EXPECT_EQ(DueLimit(growth, question), 5000);
  question.most = 1299;
  EXPECT_FALSE(DueLimit(growth, question).has_value());
  question.most = 100'000;
  question.outlook = 299;  // the job ends just before
  EXPECT_FALSE(DueLimit(growth, question).has_value());
  question.outlook = 300;  // and here just after: the limit rises by a quarter at least
  EXPECT_NEAR(*DueLimit(growth, question), 1.25 * 1299, 1e-6);
}

TEST(MemoryTest, AfterAKillTheLimitIsDoubledButNeverAboveTheMost) {
  const MemoryQuestion question{.limit = 1000, .outlook = 100, .most = 8000};
  EXPECT_EQ(LimitAfterKill(1000, std::nullopt, question), 2000);
  const MemoryGrowth growth{.bytes_per_second = 40, .bytes = 1000};
  EXPECT_NEAR(*LimitAfterKill(1000, growth, question), 5500, 1e-6);
  EXPECT_EQ(LimitAfterKill(5000, std::nullopt, question), 8000);
  EXPECT_FALSE(LimitAfterKill(8000, growth, question).has_value());
}

}  // namespace
}  // namespace paceline::brain
