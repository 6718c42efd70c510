#include "paceline/data/speed_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

// Bell-shaped, mean 0 and standard deviation 1: the sum of twelve uniform draws.
double Noise(Prng& prng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(prng.Below(1'000'000)) / 1e6;
  return sum;
}

double Expected(const SpeedModel& model, double samples) {
  return model.LineAt(samples).SecondsFor(samples);
}

TEST(SpeedModelTest, OneShareTeachesItsTimeAndNothingIsForgottenMeanwhile) {
  SpeedModel model;
  for (int i = 0; i < 100'000; ++i) model.Observe({.samples = 32, .seconds = 0.8});
  EXPECT_NEAR(Expected(model, 32), 0.8, 1e-9);
  EXPECT_TRUE(std::isfinite(model.ErrorAt(16)));
  EXPECT_NEAR(Expected(model, 16), 0.4, 0.05) << "all of it is taken to be by samples";
  EXPECT_GT(model.ErrorAt(16), model.ErrorAt(32)) << "and that is unsure";
}

TEST(SpeedModelTest, TwoSharesTeachBothParts) {
  SpeedModel model;
  const LinearTime truth{.fixed = 0.5, .per_sample = 0.02};
  for (int i = 0; i < 60; ++i) {
    const double samples = i / 10 % 2 == 0 ? 40 : 20;
    model.Observe({.samples = samples, .seconds = truth.SecondsFor(samples)});
  }
  EXPECT_NEAR(Expected(model, 30), truth.SecondsFor(30), 0.01);
  EXPECT_NEAR(Expected(model, 10), truth.SecondsFor(10), 0.03);
  EXPECT_EQ(model.changes(), 0u);
}

TEST(SpeedModelTest, OneSlowStepIsNotASlowRankAndThreeAre) {
  SpeedModel model;
  for (int i = 0; i < 20; ++i) model.Observe({.samples = 32, .seconds = 1});
  model.Observe({.samples = 32, .seconds = 50});
  EXPECT_NEAR(Expected(model, 32), 1, 0.01);
  EXPECT_EQ(model.changes(), 0u);
  for (int i = 0; i < 20; ++i) model.Observe({.samples = 32, .seconds = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(model.changes(), 0u);
    model.Observe({.samples = 32, .seconds = 4});
  }
  EXPECT_EQ(model.changes(), 1u);
  EXPECT_NEAR(Expected(model, 32), 4, 0.05);
  EXPECT_NEAR(Expected(model, 16), 2, 0.2) << "it is slower as a whole";
  for (int i = 0; i < 3; ++i) model.Observe({.samples = 32, .seconds = 1});
  EXPECT_EQ(model.changes(), 2u) << "it recovered";
  EXPECT_NEAR(Expected(model, 32), 1, 0.05);
}

TEST(SpeedModelTest, AFirstStepThatWasSlowSaysNothingButThatTimesAreUnsure) {
  SpeedModel model;
  model.Observe({.samples = 32, .seconds = 30});
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(model.is_known());
    model.Observe({.samples = 32, .seconds = 1});
  }
  EXPECT_NEAR(Expected(model, 32), 1, 1e-9);
  EXPECT_GT(model.ErrorAt(32), 5);
  for (int i = 0; i < 60; ++i) model.Observe({.samples = 32, .seconds = 1});
  EXPECT_LT(model.ErrorAt(32), 0.05);
}

TEST(SpeedModelTest, NoiseOfAnySizeIsFollowedWithItsError) {
  for (const double noise : {0.01, 0.05, 0.2, 0.3}) {
    Prng prng(3);
    SpeedModel model;
    int outside = 0;
    for (int i = 0; i < 5000; ++i) {
      model.Observe({.samples = 32, .seconds = std::max(0.1, 1 + noise * Noise(prng))});
      if (i > 50 && std::abs(Expected(model, 32) - 1) > 3 * model.ErrorAt(32)) ++outside;
    }
    EXPECT_LT(outside, 100) << noise;
    EXPECT_LT(model.changes(), 5u) << noise;
  }
}

TEST(SpeedModelTest, ADriftIsFollowed) {
  SpeedModel model;
  double seconds = 1;
  for (int i = 0; i < 400; ++i) model.Observe({.samples = 8, .seconds = seconds *= 1.003});
  EXPECT_NEAR(Expected(model, 8), seconds, 0.1 * seconds);
}

TEST(SpeedModelTest, WhateverWasSeenALineIsPossible) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    SpeedModel model;
    for (int i = 0; i < 200; ++i) {
      const double samples = static_cast<double>(1 + prng.Below(1000));
      const double seconds = std::ldexp(static_cast<double>(1 + prng.Below(1000)),
                                        static_cast<int>(prng.Between(-30, 20)));
      model.Observe({.samples = samples, .seconds = seconds});
      if (!model.is_known()) continue;
      for (const double at : {1.0, samples, 1e4}) {
        const LinearTime line = model.LineAt(at);
        ASSERT_TRUE(std::isfinite(line.fixed) && std::isfinite(line.per_sample)) << seed;
        ASSERT_GT(line.per_sample, 0) << seed;
        ASSERT_GE(line.fixed, -1e-12 * line.per_sample * at) << seed;
        ASSERT_TRUE(std::isfinite(model.ErrorAt(at))) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace paceline
