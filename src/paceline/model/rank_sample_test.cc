#include "paceline/model/rank_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

StepSums Took(int64_t whole) {
  return {.whole = Duration::Milliseconds(whole),
          .own = Duration::Milliseconds(whole - 3),
          .data = Duration::Milliseconds(1),
          .waited = Duration::Milliseconds(2)};
}

TEST(StepMeter, TheLongestStepOfABlockIsLeftOut) {
  StepMeter meter;
  for (int i = 0; i < 7; ++i) {
    EXPECT_FALSE(meter.Add(Took(i == 3 ? 5000 : 100)));
    EXPECT_EQ(0u, meter.sums().steps);
  }
  EXPECT_TRUE(meter.Add(Took(100)));
  EXPECT_EQ(7u, meter.sums().steps);
  EXPECT_EQ(Duration::Milliseconds(700), meter.sums().whole);
  EXPECT_EQ(Duration::Milliseconds(679), meter.sums().own);
  EXPECT_EQ(Duration::Milliseconds(7), meter.sums().data);
  EXPECT_EQ(Duration::Milliseconds(14), meter.sums().waited);
}

TEST(StepMeter, AddsUpWhatASortedCopyDoes) {
  Prng prng(3);
  for (int round = 0; round < 200; ++round) {
    StepMeter meter;
    int64_t expected = 0;
    for (int block = 0; block < 3; ++block) {
      std::vector<int64_t> times;
      for (uint64_t i = 0; i < kBlockSteps; ++i) times.push_back(prng.Between(3, 20));
      for (const int64_t time : times) meter.Add(Took(time));
      std::sort(times.begin(), times.end());
      for (uint64_t i = 0; i + 1 < kBlockSteps; ++i) expected += times[i];
    }
    EXPECT_EQ(Duration::Milliseconds(expected), meter.sums().whole);
    EXPECT_EQ(3 * (kBlockSteps - 1), meter.sums().steps);
  }
}

}  // namespace
}  // namespace paceline
