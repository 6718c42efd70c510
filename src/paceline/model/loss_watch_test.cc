#include "paceline/model/loss_watch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LossWatch, ARunOfNoNumbersBeginsOnce) {
  LossWatch watch;
  for (int step = 0; step < 50; ++step) EXPECT_FALSE(watch.Take(step, 2.0, {}).has_value());
  const auto bad = watch.Take(50, kNan, {});
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(BadLossKind::kLossNoNumber, bad->kind);
  EXPECT_EQ(1u, bad->count);
  EXPECT_EQ("the loss was NaN at step 50", BadLossText(*bad));
  for (int step = 51; step < 500; ++step) EXPECT_FALSE(watch.Take(step, kNan, {}).has_value());
}

TEST(LossWatch, ASecondRunIsAnother) {
  LossWatch watch;
  EXPECT_TRUE(watch.Take(0, kNan, {}).has_value());
  for (int step = 1; step < LossWatch::kGoodAgain; ++step) watch.Take(step, 2.0, {});
  EXPECT_FALSE(watch.Take(100, kNan, {}).has_value());  // one good value too few
  for (int step = 0; step < LossWatch::kGoodAgain; ++step) watch.Take(step, 2.0, {});
  const auto bad = watch.Take(200, std::numeric_limits<double>::infinity(), {});
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(2u, bad->count);
  EXPECT_EQ("the loss was infinite at step 200", BadLossText(*bad));
}

TEST(LossWatch, ASpikeIsToldWithWhatWasUsual) {
  LossWatch watch;
  for (int step = 0; step < 30; ++step) watch.Take(step, 2.0 + 0.01 * (step % 5), {});
  EXPECT_FALSE(watch.Take(30, 3.9, {}).has_value());  // below twice the usual one
  const auto bad = watch.Take(31, 8.25, {});
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(BadLossKind::kLossSpike, bad->kind);
  EXPECT_EQ("the loss rose to 8.25 at step 31; it was about 2.02 before", BadLossText(*bad));
}

TEST(LossWatch, TheNormOfTheGradientsIsWatchedByItself) {
  LossWatch watch;
  for (int step = 0; step < 30; ++step) watch.Take(step, {}, 1.0 + 0.1 * (step % 5));
  EXPECT_FALSE(watch.Take(30, {}, 5.5).has_value());
  const auto bad = watch.Take(31, 2.0, 6.5);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(BadLossKind::kNormSpike, bad->kind);
  EXPECT_TRUE(LossWatch().Take(1, 2.0, kNan).has_value());
}

TEST(LossWatch, TooFewValuesShowNothing) {
  LossWatch watch;
  for (int step = 0; step + 1 < static_cast<int>(LossWatch::kNeeded); ++step) {
    watch.Take(step, 2.0, {});
  }
  EXPECT_FALSE(watch.Take(19, 1000.0, {}).has_value());
  EXPECT_FALSE(LossWatch().Take(0, {}, {}).has_value());
}

// A loss that falls with noise, one that is near zero, and one of both signs as in reinforcement
// learning.
TEST(LossWatch, NoiseIsNoSpike) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    LossWatch watch;
    const double noise = 0.01 * static_cast<double>(prng.Between(1, 30));
    for (int step = 0; step < 500; ++step) {
      double normal = -6;
      for (int i = 0; i < 12; ++i) normal += static_cast<double>(prng.Below(1000)) / 1000;
      const double level = seed % 3 == 0 ? 0.0 : 0.5 + 10.0 / (1 + step);
      const auto bad = watch.Take(step, level + noise * normal, {});
      EXPECT_FALSE(bad.has_value()) << "seed " << seed << ": " << BadLossText(*bad);
    }
  }
}

// A new kind of data: told once, then usual.
TEST(LossWatch, ALossThatStaysHighIsUsualAfterAWhile) {
  LossWatch watch;
  for (int step = 0; step < 100; ++step) watch.Take(step, 1.0, {});
  EXPECT_TRUE(watch.Take(100, 5.0, {}).has_value());
  for (int step = 101; step < 300; ++step) EXPECT_FALSE(watch.Take(step, 5.0, {}).has_value());
  EXPECT_TRUE(watch.Take(300, 15.0, {}).has_value());
}

}  // namespace
}  // namespace paceline
