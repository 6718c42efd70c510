#include "paceline/data/speed_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

using Shares = std::vector<uint64_t>;

double Longest(const std::vector<LinearTime>& ranks, const Shares& shares) {
  double longest = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    longest = std::max(longest, ranks[i].SecondsFor(static_cast<double>(shares[i])));
  }
  return longest;
}

// The smallest maximum of times over all cuts, by trying each.
double Best(const std::vector<LinearTime>& ranks, Shares& shares, uint64_t left, ShareBounds bounds,
            size_t rank = 0) {
  if (rank + 1 == ranks.size()) {
    if (left < bounds.least || left > bounds.most) return 1e300;
    shares[rank] = left;
    return Longest(ranks, shares);
  }
  double best = 1e300;
  for (uint64_t share = bounds.least; share <= std::min(left, bounds.most); ++share) {
    shares[rank] = share;
    best = std::min(best, Best(ranks, shares, left - share, bounds, rank + 1));
  }
  return best;
}

TEST(CutForEqualTimesTest, NoOtherCutIsShorter) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Prng prng(seed);
    std::vector<LinearTime> ranks(1 + prng.Below(4));
    for (LinearTime& rank : ranks) {
      rank = {.fixed = static_cast<double>(prng.Below(4)) * 0.7,
              .per_sample = static_cast<double>(1 + prng.Below(9)) * 0.1};
    }
    const uint64_t n = ranks.size();
    const ShareBounds bounds{.least = prng.Below(3), .most = 4 + prng.Below(8)};
    const uint64_t batch = n * bounds.least + prng.Below(n * (bounds.most - bounds.least) + 1);
    const Shares shares = CutForEqualTimes(ranks, batch, bounds);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), uint64_t{0}), batch) << seed;
    for (const uint64_t share : shares) {
      EXPECT_GE(share, bounds.least) << seed;
      EXPECT_LE(share, bounds.most) << seed;
    }
    Shares scratch(n);
    EXPECT_DOUBLE_EQ(Longest(ranks, shares), Best(ranks, scratch, batch, bounds)) << seed;
  }
}

TEST(CutForEqualTimesTest, EqualRanksShareEvenlyAndManyToo) {
  const std::vector<LinearTime> ranks(7, {.fixed = 0.1, .per_sample = 0.01});
  EXPECT_EQ(CutForEqualTimes(ranks, 24, {.least = 1, .most = 24}), (Shares{4, 4, 4, 3, 3, 3, 3}));
  const std::vector<LinearTime> many(1000, {.fixed = 1e-3, .per_sample = 3e-5});
  const Shares shares = CutForEqualTimes(many, 1'000'000, {.least = 1, .most = 2000});
  EXPECT_EQ(shares, Shares(1000, 1000));
}

TEST(ScaleSharesTest, TilesAndDiffersByLessThanASample) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Prng prng(seed);
    Shares shares(1 + prng.Below(6));
    for (uint64_t& share : shares) share = 1 + prng.Below(20);
    const uint64_t whole = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
    const uint64_t size = prng.Below(2 * whole);
    const Shares scaled = ScaleShares(shares, size, 0);
    EXPECT_EQ(std::accumulate(scaled.begin(), scaled.end(), uint64_t{0}), size);
    for (size_t i = 0; i < shares.size(); ++i) {
      EXPECT_LT(std::max(scaled[i] * whole, shares[i] * size) -
                    std::min(scaled[i] * whole, shares[i] * size),
                whole);
    }
    EXPECT_EQ(ScaleShares(shares, whole, 0), shares);
  }
}

TEST(ScaleSharesTest, IsEvenWhereARankWouldHaveTooFew) {
  EXPECT_EQ(ScaleShares({20, 2, 2}, 6, 1), (Shares{2, 2, 2}));
  EXPECT_EQ(ScaleShares({20, 2, 2}, 12, 1), (Shares{10, 1, 1}));
  EXPECT_EQ(ScaleShares({20, 2, 2}, 12, 2), (Shares{4, 4, 4}));
}

// Ranks that take fixed + per_sample * samples * slowness, with noise.
class World {
 public:
  World(size_t ranks, uint64_t batch, double noise = 0, double gain_least = 0.03)
      : slowness(ranks, 1),
        noise_(noise),
        cut_(*SpeedCut::Make({.global_batch = batch,
                              .world_size = ranks,
                              .bounds = {.least = 1, .most = batch},
                              .gain_least = gain_least})) {}

  double SecondsOf(size_t rank) {
    const double factor = 1 + noise_ * (static_cast<double>(prng_.Below(2001)) / 1000 - 1);
    return slowness[rank] * (0.02 + 0.01 * static_cast<double>(cut_.shares()[rank])) * factor;
  }

  std::optional<SpeedCut::Change> Look() {
    std::vector<StepTime> times;
    for (size_t rank = 0; rank < slowness.size(); ++rank) {
      times.push_back({static_cast<double>(cut_.shares()[rank]), SecondsOf(rank)});
    }
    return cut_.Look(times, 5);
  }

  int Looks(int count) {
    int changes = 0;
    for (int i = 0; i < count; ++i) changes += Look().has_value() ? 1 : 0;
    return changes;
  }

  SpeedCut& cut() { return cut_; }
  std::vector<double> slowness;

 private:
  Prng prng_{5};
  double noise_;
  SpeedCut cut_;
};

TEST(SpeedCutTest, AWorldOfEqualsIsLeftAlone) {
  World world(4, 64);
  EXPECT_EQ(world.Looks(2000), 0);
  EXPECT_EQ(world.cut().shares(), (Shares{16, 16, 16, 16}));
}

TEST(SpeedCutTest, NoiseChangesNothing) {
  for (const double noise : {0.02, 0.1, 0.3, 0.6}) {
    World world(8, 128, noise);
    EXPECT_LE(world.Looks(3000), 3) << noise;
    const auto& shares = world.cut().shares();
    EXPECT_GE(*std::min_element(shares.begin(), shares.end()), 11u) << noise;
  }
}

TEST(SpeedCutTest, ASlowRankGetsLessOnceAndKeepsIt) {
  World world(4, 64, 0.05);
  world.slowness[2] = 3;
  EXPECT_EQ(world.Looks(2), 0) << "three observations are the least";
  const auto change = world.Look();
  ASSERT_TRUE(change.has_value());
  EXPECT_GT(change->gain, 0.4);
  EXPECT_EQ(change->because.rfind("rank 2 takes ", 0), 0u) << change->because;
  EXPECT_LE(world.Looks(500), 3) << "the split of its time is learned at the new share";
  const Shares shares = world.cut().shares();
  // Shares of 19.3, 19.3, 5.1 and 19.3 samples would end at the same time.
  EXPECT_NEAR(static_cast<double>(shares[2]), 5, 1);
  EXPECT_EQ(world.Looks(500), 0);
}

TEST(SpeedCutTest, OneSlowStepChangesNothingAndALastingOneAfterThreeLooks) {
  World world(4, 64, 0.02);
  world.Looks(50);
  world.slowness[1] = 10;
  EXPECT_FALSE(world.Look().has_value());
  world.slowness[1] = 1;
  EXPECT_EQ(world.Looks(50), 0);
  world.slowness[1] = 2;
  EXPECT_EQ(world.Looks(2), 0);
  EXPECT_TRUE(world.Look().has_value());
  EXPECT_LT(world.cut().shares()[1], 11u);
  world.Looks(50);
  world.slowness[1] = 1;  // it recovers
  EXPECT_GE(world.Looks(4), 1);
  world.Looks(50);
  EXPECT_NEAR(static_cast<double>(world.cut().shares()[1]), 16, 1);
}

TEST(SpeedCutTest, AGainBelowTheLeastIsLeft) {
  World world(4, 64);
  world.slowness[0] = 1.03;
  EXPECT_EQ(world.Looks(500), 0);
  World keen(4, 64, 0, 0.4);
  keen.slowness[0] = 1.5;
  EXPECT_EQ(keen.Looks(500), 0);
  keen.slowness[0] = 4;
  EXPECT_GE(keen.Looks(10), 1);
}

TEST(SpeedCutTest, WhatAChangeCostMustBeWonBack) {
  World world(2, 40);
  world.slowness[0] = 2;
  world.Looks(3);
  ASSERT_LT(world.cut().shares()[0], 15u);
  world.Looks(20);
  std::vector<StepTime> first;
  for (size_t rank = 0; rank < 2; ++rank) {
    const double samples = static_cast<double>(world.cut().shares()[rank]);
    first.push_back({samples, 20 + world.SecondsOf(rank)});
  }
  world.cut().Switched(first);
  EXPECT_NEAR(world.cut().switch_seconds(), 20, 0.5);
  world.slowness[0] = 1;  // a gain of a quarter of 0.26 seconds a step: 300 steps, 60 looks
  EXPECT_EQ(world.Looks(30), 0);
  EXPECT_EQ(world.Looks(100), 1);
}

TEST(SpeedCutTest, EveryRankDecidesTheSame) {
  World world(5, 100, 0.2);
  SpeedCut other = world.cut();
  Prng prng(8);
  for (int i = 0; i < 500; ++i) {
    if (i % 40 == 0) world.slowness[prng.Below(5)] = 1 + static_cast<double>(prng.Below(4));
    std::vector<StepTime> times;
    for (size_t rank = 0; rank < 5; ++rank) {
      times.push_back({static_cast<double>(other.shares()[rank]), world.SecondsOf(rank)});
    }
    world.cut().Look(times, 5);
    other.Look(times, 5);
    ASSERT_EQ(world.cut().shares(), other.shares());
    ASSERT_EQ(std::accumulate(other.shares().begin(), other.shares().end(), uint64_t{0}), 100u);
  }
}

TEST(SpeedCutTest, ALookWithoutATimeIsVoid) {
  World world(2, 40);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(world.cut().Look({{20, 1}, {20, 0}}, 5).has_value());
    EXPECT_FALSE(world.cut().Look({{20, 1}}, 5).has_value());
  }
  EXPECT_FALSE(world.cut().models()[0].is_known());
}

TEST(SpeedCutTest, RefusesWhatCannotBe) {
  const auto is_made = [](SpeedCutSpec spec) { return SpeedCut::Make(std::move(spec)).ok(); };
  const ShareBounds any{.least = 1, .most = 100};
  EXPECT_TRUE(is_made({.global_batch = 8, .world_size = 3, .bounds = any}));
  EXPECT_TRUE(is_made({.global_batch = 8, .world_size = 3, .bounds = any, .shares = {1, 1, 6}}));
  EXPECT_FALSE(is_made({.global_batch = 8, .world_size = 3, .bounds = any, .shares = {1, 1, 5}}));
  EXPECT_FALSE(is_made({.global_batch = 8, .world_size = 3, .bounds = any, .shares = {8}}));
  EXPECT_FALSE(is_made({.global_batch = 2, .world_size = 3, .bounds = any}));
  EXPECT_FALSE(is_made({.global_batch = 8, .world_size = 0, .bounds = any}));
  EXPECT_FALSE(is_made({.global_batch = 8, .world_size = 3, .bounds = {.least = 3, .most = 8}}));
  EXPECT_FALSE(is_made({.global_batch = 8, .world_size = 3, .bounds = {.least = 1, .most = 2}}));
  EXPECT_FALSE(is_made({.global_batch = 8, .world_size = 3, .bounds = any, .gain_least = 1.5}));
}

}  // namespace
}  // namespace paceline
