#include "paceline/ps/rows/row_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "paceline/base/prng.h"

namespace paceline::ps {
namespace {

constexpr uint64_t kOdd = 0xA0761D6478BD642Fu;  // a secret salt

struct TestIndex {
  uint64_t PlaceOf(uint64_t key) const { return key * kOdd; }
  void Add(uint64_t key, uint32_t row) {
    index.Add(PlaceOf(key), key, row, &pages, [this](uint64_t it) { return PlaceOf(it); });
  }
  uint32_t Find(uint64_t key) const { return index.Find(PlaceOf(key), key); }

  RowIndex::Pages pages{RowIndex::kPageFloats};
  RowIndex index;
};

TEST(RowIndexTest, FindsWhatAMapFinds) {
  for (const uint64_t seed : {1, 2, 3}) {
    Prng prng(seed);
    TestIndex it;
    std::map<uint64_t, uint32_t> map;
    for (uint32_t i = 0; i < 20'000; ++i) {
      const uint64_t key = prng.Below(30'000) - 15'000;  // half of them are negative, and 0
      const auto found = map.find(key);
      ASSERT_EQ(it.Find(key), found == map.end() ? RowIndex::kNone : found->second);
      if (found != map.end()) continue;
      it.Add(key, i);
      map[key] = i;
    }
    size_t visited = 0;
    it.index.Visit([&](uint64_t key, uint32_t row) {
      ++visited;
      EXPECT_EQ(map.at(key), row);
    });
    EXPECT_EQ(visited, map.size());
    EXPECT_EQ(it.index.size(), map.size());
  }
}

TEST(RowIndexTest, AClearedIndexGivesItsPagesBack) {
  TestIndex it;
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < 5'000; ++i) it.Add(i, i);
    EXPECT_EQ(it.Find(4'999), 4'999u);
    it.index.Clear(&it.pages);
    EXPECT_EQ(it.Find(4'999), RowIndex::kNone);
    EXPECT_EQ(it.index.bytes(), 0u);
  }
  // Ten rounds without free pages would take ten times as many as one, which takes about 50.
  EXPECT_LT(it.pages.Add(), 100u);
}

// Keys chosen without the salt: in order, with equal low or high bits, and multiples of large
// powers of two.
TEST(RowIndexTest, ChosenKeysCostFewProbes) {
  const std::vector<std::pair<uint64_t, uint64_t>> laws = {
      {1, 0}, {uint64_t{1} << 12, 0}, {uint64_t{1} << 48, 5}, {64 * 5, 1}, {~uint64_t{0}, 0}};
  for (const auto& [factor, offset] : laws) {
    TestIndex it;
    constexpr uint32_t kKeys = 10'000;
    for (uint32_t i = 0; i < kKeys; ++i) it.Add(i * factor + offset, i);
    uint64_t probes = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < kKeys; ++i) {
      const uint64_t key = i * factor + offset;
      const uint32_t of_key = it.index.ProbesOf(it.PlaceOf(key), key);
      probes += of_key;
      most = std::max(most, of_key);
    }
    EXPECT_LT(probes, kKeys * 3 / 2) << factor;
    EXPECT_LT(most, 40u) << factor;
  }
}

TEST(RowIndexTest, TakesAtMost24BytesARow) {
  TestIndex it;
  for (uint32_t i = 0; i < 20'000; ++i) {
    it.Add(i, i);
    if (i > 2'000) {
      ASSERT_LE(it.index.bytes(), i * uint64_t{25}) << i;
    }
  }
}

}  // namespace
}  // namespace paceline::ps
