#include "paceline/data/lease/interval_set.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

TEST(IntervalSetTest, IsASetOfNumbers) {
  constexpr uint64_t kCount = 40;
  Prng prng(4);
  for (int round = 0; round < 200; ++round) {
    IntervalSet set;
    std::vector<bool> twin(kCount);
    for (int i = 0; i < 60; ++i) {
      const uint64_t begin = prng.Below(kCount + 1);
      const OrdinalRange range{begin, begin + prng.Below(kCount + 1 - begin)};
      const bool adds = prng.Chance(1, 2);
      adds ? set.Add(range) : set.Remove(range);
      for (uint64_t n = range.begin; n < range.end; ++n) twin[n] = adds;

      std::vector<bool> seen(kCount);
      uint64_t total = 0;
      uint64_t end_before = 0;
      bool is_first = true;
      for (const OrdinalRange& one : set.Ranges()) {
        ASSERT_GT(one.size(), 0u);
        ASSERT_TRUE(is_first || one.begin > end_before) << "ranges that touch are one";
        is_first = false;
        end_before = one.end;
        total += one.size();
        for (uint64_t n = one.begin; n < one.end; ++n) seen[n] = true;
      }
      ASSERT_EQ(seen, twin);
      ASSERT_EQ(set.total(), total);
      const uint64_t from = prng.Below(kCount);
      const OrdinalRange asked{from, from + prng.Below(kCount - from)};
      bool all = true;
      bool any = false;
      for (uint64_t n = asked.begin; n < asked.end; ++n) {
        all = all && twin[n];
        any = any || twin[n];
      }
      ASSERT_EQ(set.Covers(asked), all);
      ASSERT_EQ(set.Overlaps(asked), any);
    }
  }
}

}  // namespace
}  // namespace paceline
