#include "paceline/data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

std::vector<uint64_t> All(uint64_t count, const PermutationKey& key) {
  const Permutation permutation(count, key);
  std::vector<uint64_t> elements;
  for (uint64_t place = 0; place < count; ++place) elements.push_back(permutation.Forward(place));
  return elements;
}

TEST(PermutationTest, EveryElementOnceAndTheInverseFindsIt) {
  for (uint64_t count = 1; count <= 700; ++count) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Permutation permutation(count, {.seed = seed, .epoch = count});
      std::vector<bool> seen(count);
      for (uint64_t place = 0; place < count; ++place) {
        const uint64_t element = permutation.Forward(place);
        ASSERT_LT(element, count);
        ASSERT_FALSE(seen[element]) << element << " twice among " << count;
        seen[element] = true;
        ASSERT_EQ(permutation.Inverse(element), place);
      }
    }
  }
}

TEST(PermutationTest, HugeOnesComeBackToTheirPlaces) {
  Prng prng(3);
  for (const uint64_t count : {uint64_t{1'000'000'000'000}, kSamplesMax, kSamplesMax - 1}) {
    const Permutation permutation(count, {.seed = 7});
    for (int i = 0; i < 1'000; ++i) {
      const uint64_t place = prng.Below(count);
      const uint64_t element = permutation.Forward(place);
      ASSERT_LT(element, count);
      ASSERT_EQ(permutation.Inverse(element), place);
    }
  }
}

// Positions in checkpoints depend on these values. They are in docs/formats/data_order.md.
TEST(PermutationTest, GoldenValues) {
  EXPECT_EQ(All(10, {.seed = 7}), (std::vector<uint64_t>{7, 3, 8, 5, 0, 1, 2, 6, 9, 4}));
  EXPECT_EQ(All(10, {.seed = 7, .epoch = 1}),
            (std::vector<uint64_t>{9, 1, 5, 2, 3, 6, 0, 4, 7, 8}));
  const Permutation large(1'000'000'000'000, {.seed = 7, .epoch = 3});
  EXPECT_EQ(large.Forward(0), 243'490'562'302u);
  EXPECT_EQ(large.Forward(1), 601'509'556'418u);
  EXPECT_EQ(large.Forward(999'999'999'999), 531'162'061'119u);
}

// The largest value of chi-square over its degrees of freedom that a fair shuffle shows in
// practice is about 1 + 5 * sqrt(2 / degrees).
double ChiSquarePerDegree(const std::vector<uint64_t>& counts, double expected) {
  double sum = 0;
  for (const uint64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  return sum / static_cast<double>(counts.size() - 1);
}

double Bound(double degrees) { return 1 + 5 * std::sqrt(2 / degrees); }

// Over many seeds, each element comes to each place as often as with a plain shuffle.
TEST(PermutationTest, EachElementComesToEachPlaceEquallyOften) {
  constexpr uint64_t kSeeds = 40'000;
  for (const uint64_t count : {2, 3, 4, 5, 7, 8, 9, 16, 30}) {
    std::vector<uint64_t> plain(count * count);
    std::vector<uint64_t> ours(count * count);
    Prng prng(count);
    std::vector<uint64_t> shuffled(count);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const std::vector<uint64_t> elements = All(count, {.seed = seed, .epoch = seed % 3});
      std::iota(shuffled.begin(), shuffled.end(), 0);
      prng.Shuffle(shuffled);
      for (uint64_t place = 0; place < count; ++place) {
        ++ours[place * count + elements[place]];
        ++plain[place * count + shuffled[place]];
      }
    }
    const double expected = static_cast<double>(kSeeds) / static_cast<double>(count);
    const double bound = Bound(static_cast<double>((count - 1) * (count - 1))) + 0.2;
    EXPECT_LT(ChiSquarePerDegree(ours, expected), bound) << count;
    EXPECT_LT(ChiSquarePerDegree(plain, expected), bound) << count << ", the plain shuffle";
  }
}

// All orders of few elements occur, and equally often.
TEST(PermutationTest, SmallOnesTakeEveryOrder) {
  constexpr uint64_t kSeeds = 60'000;
  for (const uint64_t count : {2, 3, 4, 5}) {
    std::map<std::vector<uint64_t>, uint64_t> orders;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) ++orders[All(count, {.seed = seed})];
    uint64_t factorial = 1;
    for (uint64_t i = 2; i <= count; ++i) factorial *= i;
    ASSERT_EQ(orders.size(), factorial);
    std::vector<uint64_t> counts;
    for (const auto& [order, times] : orders) counts.push_back(times);
    const double expected = static_cast<double>(kSeeds) / static_cast<double>(factorial);
    EXPECT_LT(ChiSquarePerDegree(counts, expected), Bound(static_cast<double>(factorial - 1)) + 0.2)
        << count;
  }
}

// Neighbours are separated: the distance between the samples of consecutive places falls into each
// of 64 bins equally often, within an order and between epochs.
TEST(PermutationTest, NeighboursAreStrangers) {
  constexpr uint64_t kCount = 1 << 20;
  constexpr uint64_t kBins = 64;
  const Permutation now(kCount - 3, {.seed = 1, .epoch = 0});
  const Permutation next(kCount - 3, {.seed = 1, .epoch = 1});
  std::vector<uint64_t> steps(kBins);
  std::vector<uint64_t> epochs(kBins);
  uint64_t before = now.Forward(0);
  for (uint64_t place = 1; place < kCount - 3; ++place) {
    const uint64_t element = now.Forward(place);
    const uint64_t other = next.Forward(place);
    ++steps[(element + kCount - 3 - before) % (kCount - 3) * kBins / (kCount - 3)];
    ++epochs[(element + kCount - 3 - other) % (kCount - 3) * kBins / (kCount - 3)];
    before = element;
  }
  const double expected = static_cast<double>(kCount - 4) / kBins;
  EXPECT_LT(ChiSquarePerDegree(steps, expected), Bound(kBins - 1));
  EXPECT_LT(ChiSquarePerDegree(epochs, expected), Bound(kBins - 1));
}

// The number of cycles and of fixed points is as for random permutations: ln n, and 1 on average.
TEST(PermutationTest, CyclesAndFixedPointsAreThoseOfChance) {
  double fixed = 0;
  double cycles = 0;
  constexpr int kSeeds = 2'000;
  constexpr uint64_t kCount = 1'000;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<uint64_t> to = All(kCount, {.seed = seed});
    std::vector<bool> seen(kCount);
    for (uint64_t start = 0; start < kCount; ++start) {
      fixed += to[start] == start ? 1 : 0;
      if (seen[start]) continue;
      cycles += 1;
      for (uint64_t at = start; !seen[at]; at = to[at]) seen[at] = true;
    }
  }
  EXPECT_NEAR(fixed / kSeeds, 1.0, 0.15);
  EXPECT_NEAR(cycles / kSeeds, 7.485, 0.3);  // the 1000th harmonic number
}

}  // namespace
}  // namespace paceline
