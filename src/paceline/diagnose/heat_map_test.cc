#include "paceline/diagnose/heat_map.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::diagnose {
namespace {

constexpr Generation kHeatWorld{1};

Instant HeatAt(double seconds) {
  return Instant() + Duration::Milliseconds(1'000'000'000 + static_cast<int64_t>(seconds * 1000));
}

// A world of ranks that make a step of a second each second; a part of it is own work.
class HeatMapTest : public ::testing::Test {
 protected:
  void Begin(size_t ranks) {
    map_.Begin(kHeatWorld, ranks);
    own_.assign(ranks, Duration::Milliseconds(500));
    sums_.assign(ranks, {});
  }
  // `count` steps, and what each rank tells after them.
  void Train(uint64_t count, double seconds_each = 1) {
    const Duration step = Duration::Milliseconds(static_cast<int64_t>(seconds_each * 1000));
    for (size_t rank = 0; rank < sums_.size(); ++rank) {
      StepSums& sums = sums_[rank];
      for (uint64_t i = 0; i < count; ++i) {
        sums.steps += 1;
        sums.whole += step;
        sums.own += own_[rank];
        sums.waited += step - own_[rank];
      }
    }
    now_ += static_cast<double>(count) * seconds_each;
    for (size_t rank = 0; rank < sums_.size(); ++rank) {
      map_.Take(HeatAt(now_), {kHeatWorld, Rank(static_cast<uint32_t>(rank)), sums_[rank]});
    }
  }
  void EndTheColumn() { map_.PassTime(HeatAt(now_ + HeatMap::kColumnSeconds)); }

  HeatMap map_;
  std::vector<Duration> own_;
  std::vector<StepSums> sums_;
  double now_ = 0;
};

TEST_F(HeatMapTest, OneSlowRankOfTenThousandStaysVisible) {
  Begin(10'000);
  own_[4711] = Duration::Milliseconds(550);
  Train(5);
  EndTheColumn();
  ASSERT_EQ(map_.columns().size(), 1u);
  const std::vector<uint8_t>& ranks = map_.columns()[0].ranks;
  EXPECT_EQ(ranks[4711], HeatMap::kUsual + 10);
  EXPECT_EQ(std::count(ranks.begin(), ranks.end(), HeatMap::kUsual), 9999);
}

TEST_F(HeatMapTest, RanksAreComparedWithinTheirStage) {
  Begin(8);
  map_.SetStages({0, 0, 0, 0, 1, 1, 1, 1});
  for (size_t rank = 4; rank < 8; ++rank) own_[rank] = Duration::Milliseconds(900);
  own_[6] = Duration::Milliseconds(945);
  Train(5);
  EndTheColumn();
  const uint8_t usual = HeatMap::kUsual;
  EXPECT_EQ(map_.columns()[0].ranks,
            (std::vector<uint8_t>{usual, usual, usual, usual, usual, usual,
                                  static_cast<uint8_t>(usual + 5), usual}));
}

TEST_F(HeatMapTest, LoadingDataCountsAsOwnTime) {
  Begin(4);
  Train(1);
  sums_[2].data += Duration::Milliseconds(250);
  Train(1);
  EndTheColumn();
  EXPECT_EQ(map_.columns()[0].ranks[2], HeatMap::kUsual + 25);
}

TEST_F(HeatMapTest, StepsLongerThanAColumnFillAllThatTheyCover) {
  Begin(2);
  Train(1, 10);
  Train(3, 10);  // told after 30 s
  Train(3, 10);
  EndTheColumn();
  const auto& columns = map_.columns();
  ASSERT_EQ(columns.size(), 8u);  // the first 10 s and the time from their begin on
  for (const HeatMap::Column& column : columns) EXPECT_NE(column.ranks[0], HeatMap::kUntold);
}

TEST_F(HeatMapTest, ALateRankChangesAColumnThatAReaderHas) {
  Begin(3);
  Train(10);
  for (int i = 0; i < 2; ++i) {  // rank 2 tells nothing for 20 s
    const StepSums before = sums_[2];
    sums_.pop_back();
    Train(10);
    sums_.push_back(before);
  }
  const uint64_t known = map_.version();
  ASSERT_EQ(map_.columns().back().ranks[2], HeatMap::kUntold);
  const int64_t late = map_.columns().back().number;
  sums_[2].steps += 25;
  sums_[2].whole += Duration::Seconds(25);
  sums_[2].own += Duration::Milliseconds(500 * 25);
  Train(1);
  EndTheColumn();
  const auto column = std::find_if(map_.columns().begin(), map_.columns().end(),
                                   [&](const auto& one) { return one.number == late; });
  ASSERT_NE(column, map_.columns().end());
  EXPECT_EQ(column->ranks[2], HeatMap::kUsual);
  EXPECT_GT(column->version, known);
}

TEST_F(HeatMapTest, KeepsHalfAnHour) {
  Begin(2);
  for (size_t i = 0; i < HeatMap::kColumns + 50; ++i) Train(10);
  EXPECT_EQ(map_.columns().size(), HeatMap::kColumns);
  EXPECT_LT(map_.columns().front().number, map_.columns().back().number);
}

TEST_F(HeatMapTest, SamplesOfAnotherWorldAndImpossibleOnesAreIgnored) {
  Begin(2);
  Train(5);
  map_.Take(HeatAt(now_), {Generation(7), Rank(0), {.steps = 900, .own = Duration::Seconds(900)}});
  map_.Take(HeatAt(now_), {kHeatWorld, Rank(2), {.steps = 900, .own = Duration::Seconds(900)}});
  map_.Take(HeatAt(now_), {kHeatWorld, Rank(0), {.steps = 1}});
  EndTheColumn();
  EXPECT_EQ(map_.columns()[0].ranks, (std::vector<uint8_t>{HeatMap::kUsual, HeatMap::kUsual}));
}

TEST_F(HeatMapTest, ANewWorldBeginsAnewBesideTheColumnsOfTheOneBefore) {
  Begin(4);
  Train(5);
  map_.Begin(Generation(2), 2);
  StepSums sums{.steps = 5, .whole = Duration::Seconds(5), .own = Duration::Seconds(1)};
  for (const uint32_t rank : {0u, 1u})
    map_.Take(HeatAt(now_ + 12), {Generation(2), Rank(rank), sums});
  map_.PassTime(HeatAt(now_ + 30));
  ASSERT_EQ(map_.columns().size(), 2u);
  EXPECT_EQ(map_.columns()[0].ranks.size(), 4u);
  EXPECT_EQ(map_.columns()[1].ranks.size(), 2u);
  EXPECT_EQ(map_.columns()[1].generation, Generation(2));
}

}  // namespace
}  // namespace paceline::diagnose
