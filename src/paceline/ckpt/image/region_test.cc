#include "paceline/ckpt/image/region.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"

namespace paceline::ckpt {
namespace {

using Extents = std::vector<uint64_t>;

uint64_t Volume(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

std::vector<ByteRun> RunsOf(const Region& region, const Extents& box, size_t element = 1) {
  std::vector<ByteRun> runs;
  EXPECT_TRUE(ForEachRun(region, box, element, [&](const ByteRun& run) -> Result<void> {
                runs.push_back(run);
                return {};
              }).ok());
  return runs;
}

// The reference implementation, element by element.
std::vector<int> Twin(const Region& region, const Extents& box, const std::vector<int>& source) {
  std::vector<int> target(Volume(region.shape), -1);
  for (uint64_t flat = 0; flat < Volume(region.extent); ++flat) {
    uint64_t rest = flat;
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t from_stride = 1;
    uint64_t to_stride = 1;
    for (size_t i = box.size(); i-- > 0;) {
      const uint64_t at = rest % region.extent[i];
      rest /= region.extent[i];
      from += (region.from[i] + at) * from_stride;
      to += (region.to[i] + at) * to_stride;
      from_stride *= box[i];
      to_stride *= region.shape[i];
    }
    target[to] = source[from];
  }
  return target;
}

TEST(RegionTest, AWholeBoxIsOneRun) {
  const auto runs = RunsOf({{0, 0}, {3, 5}, {3, 5}, {0, 0}}, {3, 5}, 4);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].bytes, 60u);
}

TEST(RegionTest, RowsAreOneRunAndColumnsAreOneEach) {
  EXPECT_EQ(RunsOf({{1, 0}, {2, 5}, {2, 5}, {0, 0}}, {3, 5}).size(), 1u);
  EXPECT_EQ(RunsOf({{0, 1}, {3, 2}, {3, 2}, {0, 0}}, {3, 5}).size(), 3u);
}

TEST(RegionTest, AScalarIsOneRunAndNothingIsNone) {
  EXPECT_EQ(RunsOf({}, {}, 8).size(), 1u);
  EXPECT_TRUE(RunsOf({{0, 0}, {0, 5}, {0, 5}, {0, 0}}, {3, 5}).empty());
}

TEST(RegionTest, WhatLiesOutsideIsRefused) {
  const auto never = [](const ByteRun&) -> Result<void> { return {}; };
  EXPECT_FALSE(ForEachRun({{2}, {2}, {2}, {0}}, {3}, 1, never).ok());
  EXPECT_FALSE(ForEachRun({{0}, {2}, {2}, {1}}, {3}, 1, never).ok());
  EXPECT_FALSE(ForEachRun({{0}, {2}, {2}, {0}}, {3, 1}, 1, never).ok());
  EXPECT_FALSE(ForEachRun({{UINT64_MAX}, {2}, {2}, {0}}, {3}, 1, never).ok());
}

TEST(RegionTest, AnyPartOfAnyBoxGoesWhereTheTwinPutsIt) {
  Prng prng(3);
  for (int round = 0; round < 3'000; ++round) {
    const auto dimensions = static_cast<size_t>(prng.Between(0, 4));
    Extents box;
    Region region;
    for (size_t i = 0; i < dimensions; ++i) {
      const auto extent = static_cast<uint64_t>(prng.Between(0, 4));
      const auto before = static_cast<uint64_t>(prng.Between(0, 2));
      const auto to = static_cast<uint64_t>(prng.Between(0, 2));
      region.from.push_back(before);
      region.extent.push_back(extent);
      region.to.push_back(to);
      box.push_back(before + extent + static_cast<uint64_t>(prng.Between(0, 2)));
      region.shape.push_back(to + extent + static_cast<uint64_t>(prng.Between(0, 2)));
    }
    std::vector<int> source(Volume(box));
    std::iota(source.begin(), source.end(), 0);
    std::vector<int> target(Volume(region.shape), -1);
    uint64_t behind = 0;
    for (const auto& run : RunsOf(region, box)) {
      ASSERT_GE(run.from, behind) << "runs are in order and apart";
      behind = run.from + run.bytes;
      for (uint64_t i = 0; i < run.bytes; ++i) target[run.to + i] = source[run.from + i];
    }
    ASSERT_EQ(target, Twin(region, box, source)) << round;
  }
}

}  // namespace
}  // namespace paceline::ckpt
