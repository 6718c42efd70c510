#include "paceline/client/tables/bag.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/client/tables/gradient_sum.h"

namespace paceline::client {
namespace {

using Keys = std::vector<int64_t>;
using Floats = std::vector<float>;

TEST(BagTest, EachKeyIsLookedUpOnceAndItsGradientsAreSummed) {
  const Keys keys = {7, -1, 7, 7};
  const Bags bags = *Bags::FromOffsets(keys, Keys{0, 2, 2}, Pooling::kSum);
  EXPECT_EQ(bags.keys(), (std::vector<uint64_t>{7, UINT64_MAX})) << "in the order they come";
  Floats pooled(3 * 2);
  bags.Pool(Floats{1, 2, 10, 20}, 2, pooled);
  EXPECT_EQ(pooled, (Floats{11, 22, 0, 0, 2, 4}));
  Floats rows(2 * 2);
  bags.Spread(Floats{1, 1, 50, 50, 3, 4}, 2, rows);
  EXPECT_EQ(rows, (Floats{7, 9, 1, 1})) << "the empty bag's gradient is of no row";
}

TEST(BagTest, AMeanIsDividedByTheNumberOfKeys) {
  const Keys keys = {1, 2, 3, 4};
  const Bags bags = Bags::OfWidth(keys, 2, Pooling::kMean);
  ASSERT_EQ(bags.bags(), 2u);
  Floats pooled(2);
  bags.Pool(Floats{1, 3, 10, 20}, 1, pooled);
  EXPECT_EQ(pooled, (Floats{2, 15}));
  Floats rows(4);
  bags.Spread(Floats{2, 4}, 1, rows);
  EXPECT_EQ(rows, (Floats{1, 1, 2, 2}));
}

TEST(BagTest, WrongOffsetsAreRefused) {
  const Keys keys = {1, 2, 3};
  for (const Keys& begins : {Keys{}, Keys{1}, Keys{0, 2, 1}, Keys{0, 4}, Keys{0, -1}}) {
    EXPECT_FALSE(Bags::FromOffsets(keys, begins, Pooling::kSum).ok());
  }
  EXPECT_EQ(Bags::FromOffsets(Keys{}, Keys{}, Pooling::kSum)->bags(), 0u);
  EXPECT_EQ(Bags::FromOffsets(Keys{}, Keys{0, 0}, Pooling::kSum)->bags(), 2u);
}

TEST(BagTest, ManyKeysKeepTheirNumbers) {
  KeyIndex index;
  for (uint64_t key = 0; key < 10'000; ++key) ASSERT_EQ(index.Add(key << 40), key);
  for (uint64_t key = 0; key < 10'000; ++key) ASSERT_EQ(index.Add(key << 40), key);
  index.Clear();
  EXPECT_EQ(index.Add(5), 0u);
}

TEST(GradientSumTest, SeveralLookupsOfATableInABatchAreOneGradient) {
  const Keys first = {1, 2};
  const Keys second = {2, 3};
  GradientSum sum(1);
  sum.Add(Bags::OfWidth(first, 1, Pooling::kSum), Floats{10, 20});
  sum.Add(Bags::OfWidth(second, 1, Pooling::kSum), Floats{1, 2});
  EXPECT_EQ(sum.keys(), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(sum.values(), (Floats{10, 21, 2}));
  sum.Clear();
  sum.AddDense(Floats{5});
  EXPECT_EQ(sum.values(), (Floats{5}));
}

TEST(GradientSumTest, TheLastRowOfADenseTensorIsPadded) {
  GradientSum sum(4);
  sum.AddDense(Floats{1, 2, 3, 4, 5});
  EXPECT_EQ(sum.keys(), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(sum.values(), (Floats{1, 2, 3, 4, 5, 0, 0, 0}));
}

}  // namespace
}  // namespace paceline::client
