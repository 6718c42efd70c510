#include "paceline/core/slow/time_desk.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/testing/two_nodes_fixture.h"

namespace paceline::core {
namespace {

constexpr Duration kSecond = Duration::Seconds(1);

class TimeDeskTest : public TwoNodesTest {
 protected:
  RankTimes Times(uint32_t rank, RankPhase phase, Duration data, Duration forward) const {
    RankTimes one{.generation = state_.world->generation, .rank = Rank(rank), .phase = phase};
    one.times.of[static_cast<size_t>(RankPhase::kData)] = data;
    one.times.of[static_cast<size_t>(RankPhase::kForward)] = forward;
    return one;
  }
  std::optional<TimeTold> Take(Instant at, uint32_t node, std::vector<RankTimes> times) {
    return desk_.Take(at, state_, NodeId(node), times);
  }
  static int64_t Of(const TimeTold& told, TimePart part) {
    return told.spent[static_cast<size_t>(part)];
  }

  TimeDesk desk_;
  const Instant begin_ = Instant() + Duration::Seconds(1000);
};

TEST_F(TimeDeskTest, AddsUpTheRanks) {
  Take(begin_, 1,
       {Times(0, RankPhase::kForward, kSecond, kSecond * 3),
        Times(1, RankPhase::kData, kSecond, kSecond * 3)});
  const auto told = Take(begin_ + kSecond, 2,
                         {Times(2, RankPhase::kForward, kSecond * 2, kSecond * 4),
                          Times(3, RankPhase::kForward, kSecond * 2, kSecond * 4)});
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->ranks, 4u);
  // The first two told it a second ago, and each is taken to be in its phase still.
  EXPECT_EQ(Of(*told, TimePart::kData), 6000 + 1000);
  EXPECT_EQ(Of(*told, TimePart::kWork), 14'000 + 1000);
  EXPECT_EQ(told->now[static_cast<size_t>(TimePart::kWork)], 3u);
  EXPECT_EQ(told->now[static_cast<size_t>(TimePart::kData)], 1u);
}

TEST_F(TimeDeskTest, DoesNotGuessForLong) {
  Take(begin_, 1, {Times(0, RankPhase::kForward, Duration(), kSecond)});
  const auto told =
      Take(begin_ + kSecond * 60, 2, {Times(2, RankPhase::kForward, Duration(), kSecond * 61)});
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(Of(*told, TimePart::kWork), 1000 + kGuessMax.milliseconds() + 61'000);
}

TEST_F(TimeDeskTest, ARankThatHasEndedSpendsNoMore) {
  RankTimes ended = Times(0, RankPhase::kEnd, Duration(), kSecond);
  ended.has_ended = true;
  Take(begin_, 1, {ended});
  const auto told =
      Take(begin_ + kSecond * 3, 2, {Times(2, RankPhase::kForward, Duration(), kSecond)});
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(Of(*told, TimePart::kWork), 2000);
  EXPECT_EQ(Of(*told, TimePart::kEnd), 0);
}

TEST_F(TimeDeskTest, TellsOnceASecondAndSoonerOfAnEnd) {
  const auto times = [&] { return std::vector{Times(0, RankPhase::kData, kSecond, kSecond)}; };
  EXPECT_TRUE(Take(begin_, 1, times()).has_value());
  EXPECT_FALSE(Take(begin_ + Duration::Milliseconds(900), 1, times()).has_value());
  std::vector<RankTimes> ended = times();
  ended.front().has_ended = true;
  EXPECT_TRUE(Take(begin_ + Duration::Milliseconds(950), 1, ended).has_value());
  EXPECT_FALSE(Take(begin_ + Duration::Milliseconds(960), 1, ended).has_value());
  EXPECT_TRUE(Take(begin_ + Duration::Milliseconds(1960), 1, times()).has_value());
}

TEST_F(TimeDeskTest, LeavesOutRanksOfOtherNodesAndWorlds) {
  EXPECT_FALSE(Take(begin_, 1, {Times(2, RankPhase::kData, kSecond, kSecond)}).has_value());
  EXPECT_FALSE(Take(begin_, 9, {Times(0, RankPhase::kData, kSecond, kSecond)}).has_value());
  const RankTimes old = Times(0, RankPhase::kData, kSecond, kSecond);
  Form(2);
  EXPECT_FALSE(Take(begin_, 1, {old}).has_value());
  const auto told = Take(begin_, 1, {Times(0, RankPhase::kData, kSecond, kSecond)});
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->generation, Generation(2));
  EXPECT_EQ(told->ranks, 1u);
}

// Rank 1 works longer than the others, who wait for it in every second.
TEST_F(TimeDeskTest, ComparesHowLongTheRanksWait) {
  std::optional<TimeTold> last;
  for (int second = 0; second <= 90; ++second) {
    for (const uint32_t node : {1U, 2U}) {
      std::vector<RankTimes> times;
      for (const uint32_t rank : {2 * node - 2, 2 * node - 1}) {
        times.push_back(Times(rank, RankPhase::kForward, Duration(), kSecond * second));
        times.back().times.waited = Duration::Milliseconds(rank == 1 ? 100 : 300) * second;
      }
      if (auto told = Take(begin_ + kSecond * second, node, times)) last = told;
    }
  }
  ASSERT_TRUE(last.has_value());
  // The second node's times are a second old when the first one's make the sums due.
  EXPECT_NEAR(static_cast<double>(Of(*last, TimePart::kStraggler)), 3 * 200 * 90, 2 * 300 + 100);
  EXPECT_EQ(Of(*last, TimePart::kWork) + Of(*last, TimePart::kStraggler), 4 * 90'000);
}

// In the first minute rank 0 is the slow one, then rank 1. One does not make up for the other.
TEST_F(TimeDeskTest, AnotherSlowRankTakesNothingBack) {
  std::vector<Duration> waited(2);
  int64_t after_first = 0;
  int64_t straggled = 0;
  for (int second = 0; second <= 120; ++second) {
    if (second > 0) waited[second <= 60 ? 1 : 0] += Duration::Milliseconds(200);
    std::vector<RankTimes> times;
    for (const uint32_t rank : {0U, 1U}) {
      times.push_back(Times(rank, RankPhase::kForward, Duration(), kSecond * second));
      times.back().times.waited = waited[rank];
    }
    const auto told = Take(begin_ + kSecond * second, 1, times);
    ASSERT_TRUE(told.has_value());
    straggled = Of(*told, TimePart::kStraggler);
    if (second == 60) after_first = straggled;
  }
  EXPECT_EQ(after_first, 60 * 200);
  EXPECT_EQ(straggled, 120 * 200);
}

TEST_F(TimeDeskTest, StagesOfAPipelineWaitByDesign) {
  for (const int second : {0, 10}) {
    std::vector<RankTimes> times;
    for (const uint32_t rank : {0U, 1U}) {
      RankTimes one = Times(rank, RankPhase::kForward, Duration(), kSecond * second);
      one.times.waited = rank == 0 ? Duration() : kSecond * second / 2;
      one.is_piped = true;
      times.push_back(one);
    }
    const auto told = Take(begin_ + kSecond * second, 1, times);
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(Of(*told, TimePart::kStraggler), 0);
  }
}

}  // namespace
}  // namespace paceline::core
