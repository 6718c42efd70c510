#include "paceline/data/mixture.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace paceline {
namespace {

Mixture MakeMixture(std::vector<uint64_t> weights, uint64_t seed = 7) {
  Result<Mixture> mixture = Mixture::Make({.weights = std::move(weights), .seed = seed});
  EXPECT_TRUE(mixture.ok());
  return std::move(*mixture);
}

TEST(MixtureTest, ProportionsAreExactAfterEachPeriod) {
  const std::vector<uint64_t> weights = {7, 1, 12};
  const Mixture mixture = MakeMixture(weights);
  ASSERT_EQ(mixture.period(), 20u);
  std::vector<uint64_t> drawn(3);
  for (uint64_t place = 0; place < 2'000; ++place) {
    ++drawn[mixture.At(place).set];
    if ((place + 1) % 20 != 0) continue;
    for (uint64_t set = 0; set < 3; ++set) EXPECT_EQ(drawn[set], weights[set] * (place + 1) / 20);
  }
}

TEST(MixtureTest, EachSetIsDrawnWithoutHolesAndEachDrawHasOnePlace) {
  for (const std::vector<uint64_t>& weights :
       {std::vector<uint64_t>{1}, std::vector<uint64_t>{1, 1}, std::vector<uint64_t>{3, 5, 1}}) {
    const Mixture mixture = MakeMixture(weights);
    const uint64_t periods = 50;
    std::vector<std::set<uint64_t>> draws(weights.size());
    for (uint64_t place = 0; place < periods * mixture.period(); ++place) {
      const Draw draw = mixture.At(place);
      EXPECT_TRUE(draws[draw.set].insert(draw.draw).second);
      EXPECT_EQ(mixture.PlaceOf(draw), place);
    }
    for (uint64_t set = 0; set < weights.size(); ++set) {
      EXPECT_EQ(draws[set].size(), periods * weights[set]);
      EXPECT_EQ(*draws[set].rbegin(), periods * weights[set] - 1);
    }
  }
}

// Golden values of docs/formats/data_order.md.
TEST(MixtureTest, GoldenValues) {
  const Mixture mixture = MakeMixture({3, 1});
  const std::vector<Draw> expected = {{1, 0}, {0, 2}, {0, 0}, {0, 1},
                                      {0, 4}, {0, 3}, {1, 1}, {0, 5}};
  for (uint64_t place = 0; place < expected.size(); ++place) {
    EXPECT_EQ(mixture.At(place), expected[place]) << place;
  }
}

TEST(MixtureTest, PeriodsDiffer) {
  const Mixture mixture = MakeMixture({5, 5});
  std::set<std::vector<uint64_t>> patterns;
  for (uint64_t period = 0; period < 20; ++period) {
    std::vector<uint64_t> pattern;
    for (uint64_t i = 0; i < 10; ++i) pattern.push_back(mixture.At(period * 10 + i).set);
    patterns.insert(pattern);
  }
  EXPECT_GT(patterns.size(), 10u);
}

TEST(MixtureTest, RefusesWhatIsNoMixture) {
  EXPECT_FALSE(Mixture::Make({}).ok());
  EXPECT_FALSE(Mixture::Make({.weights = {1, 0}}).ok());
  EXPECT_FALSE(Mixture::Make({.weights = {uint64_t{1} << 32, 1}}).ok());
}

}  // namespace
}  // namespace paceline
