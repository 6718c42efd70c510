#include "paceline/data/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace paceline {
namespace {

EpochOrder Make(const OrderSpec& spec) {
  Result<EpochOrder> order = EpochOrder::Make(spec);
  EXPECT_TRUE(order.ok()) << (order.ok() ? "" : order.failure().message);
  return std::move(*order);
}

void ExpectBijection(const OrderSpec& spec) {
  const EpochOrder order = Make(spec);
  const std::vector<uint64_t> samples = order.SamplesAt({0, spec.samples});
  ASSERT_EQ(samples.size(), spec.samples);
  std::vector<bool> seen(spec.samples);
  for (uint64_t ordinal = 0; ordinal < spec.samples; ++ordinal) {
    const uint64_t sample = samples[ordinal];
    ASSERT_LT(sample, spec.samples);
    ASSERT_FALSE(seen[sample]) << sample << " twice";
    seen[sample] = true;
    ASSERT_EQ(order.SampleAt(ordinal), sample);
    ASSERT_EQ(order.OrdinalOf(sample), ordinal);
  }
}

TEST(EpochOrderTest, EveryOrderHasEverySampleOnce) {
  for (uint64_t samples = 1; samples <= 60; ++samples) {
    ExpectBijection({.samples = samples, .seed = 1, .shuffle = Shuffle::kNone});
    ExpectBijection({.samples = samples, .seed = 1, .shuffle = Shuffle::kWhole});
    for (uint64_t block = 1; block <= 9; ++block) {
      for (uint64_t window = 1; window <= 6; ++window) {
        for (uint64_t seed = 0; seed < 4; ++seed) {
          ExpectBijection({.samples = samples,
                           .seed = seed,
                           .epoch = 2,
                           .shuffle = Shuffle::kBlocked,
                           .block = block,
                           .window = window});
        }
      }
    }
  }
  ExpectBijection(
      {.samples = 10'007, .seed = 5, .shuffle = Shuffle::kBlocked, .block = 64, .window = 7});
}

TEST(EpochOrderTest, AnyPartOfAnOrderIsThatPartOfTheWhole) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWhole, Shuffle::kBlocked}) {
    const EpochOrder order =
        Make({.samples = 101, .seed = 3, .shuffle = shuffle, .block = 8, .window = 3});
    const std::vector<uint64_t> all = order.SamplesAt({0, 101});
    for (uint64_t begin = 0; begin <= 101; begin += 7) {
      for (uint64_t end = begin; end <= 101; end += 5) {
        const std::vector<uint64_t> part = order.SamplesAt({begin, end});
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<long>(begin)));
        EXPECT_EQ(part.size(), end - begin);
      }
    }
  }
}

// A reader that keeps a window in memory reads every block once.
TEST(EpochOrderTest, AWindowTakesWholeBlocks) {
  const uint64_t block = 10;
  const uint64_t window = 4;
  const EpochOrder order = Make({.samples = 1'003,
                                 .seed = 9,
                                 .shuffle = Shuffle::kBlocked,
                                 .block = block,
                                 .window = window});
  std::set<uint64_t> open;
  std::vector<uint64_t> left(101, block);
  left.back() = 3;
  std::vector<uint64_t> first_seen;
  for (const uint64_t sample : order.SamplesAt({0, 1'003})) {
    const uint64_t number = sample / block;
    if (open.insert(number).second) first_seen.push_back(number);
    if (--left[number] == 0) open.erase(number);
    ASSERT_LE(open.size(), window);
  }
  EXPECT_EQ(first_seen.size(), 101u);
  EXPECT_FALSE(std::is_sorted(first_seen.begin(), first_seen.end()));
}

TEST(EpochOrderTest, SeedsAndEpochsGiveOtherOrders) {
  const auto order = [](uint64_t seed, uint64_t epoch) {
    return Make({.samples = 1'000, .seed = seed, .epoch = epoch}).SamplesAt({0, 1'000});
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_NE(order(1, 2), order(2, 1));
}

// Golden values of docs/formats/data_order.md.
TEST(EpochOrderTest, GoldenValuesOfTheBlockedOrder) {
  const EpochOrder order = Make({.samples = 23,
                                 .seed = 7,
                                 .epoch = 1,
                                 .shuffle = Shuffle::kBlocked,
                                 .block = 4,
                                 .window = 2});
  EXPECT_EQ(order.SamplesAt({0, 23}),
            (std::vector<uint64_t>{8,  6,  4,  9, 11, 10, 5, 7,  18, 17, 20, 21,
                                   19, 22, 16, 0, 2,  3,  1, 14, 12, 15, 13}));
}

TEST(EpochOrderTest, RefusesWhatIsNoOrder) {
  const OrderSpec blocked{.samples = 10, .shuffle = Shuffle::kBlocked, .block = 2, .window = 2};
  EXPECT_FALSE(EpochOrder::Make({.samples = 0}).ok());
  EXPECT_FALSE(EpochOrder::Make({.samples = kSamplesMax + 1}).ok());
  EXPECT_TRUE(EpochOrder::Make(blocked).ok());
  OrderSpec no_block = blocked;
  no_block.block = 0;
  EXPECT_FALSE(EpochOrder::Make(no_block).ok());
  OrderSpec no_window = blocked;
  no_window.window = 0;
  EXPECT_FALSE(EpochOrder::Make(no_window).ok());
  OrderSpec huge = blocked;
  huge.window = kSamplesMax;
  EXPECT_FALSE(EpochOrder::Make(huge).ok());
}

}  // namespace
}  // namespace paceline
