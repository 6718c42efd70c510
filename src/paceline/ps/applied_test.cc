#include "paceline/ps/applied.h"

#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

PushTag BatchOf(std::vector<OrdinalRange> ranges, uint64_t set = 1) {
  return {.set = set, .batch = std::move(ranges)};
}

PushAnswer Asked(const AppliedSets& sets, const PushTag& tag) {
  std::string why;
  const PushAnswer answer = sets.Judge(tag, &why);
  EXPECT_EQ(why.empty(), answer == PushAnswer::kApplied || answer == PushAnswer::kSkipped);
  return answer;
}

TEST(AppliedSetsTest, ATagNamesABatch) {
  const AppliedSets sets;
  EXPECT_EQ(Asked(sets, BatchOf({})), PushAnswer::kMalformed);
  EXPECT_EQ(Asked(sets, BatchOf({{3, 3}})), PushAnswer::kMalformed);
  EXPECT_EQ(Asked(sets, BatchOf({{4, 3}})), PushAnswer::kMalformed);
  EXPECT_EQ(Asked(sets, BatchOf({{0, 3}, {2, 4}})), PushAnswer::kMalformed);
  EXPECT_EQ(Asked(sets, BatchOf({{5, 9}, {0, 3}})), PushAnswer::kApplied);
}

TEST(AppliedSetsTest, ABatchOfManyRangesIsAllOrNothing) {
  AppliedSets sets;
  sets.Add(BatchOf({{0, 4}, {8, 12}}));
  EXPECT_EQ(Asked(sets, BatchOf({{0, 4}, {8, 12}})), PushAnswer::kSkipped);
  EXPECT_EQ(Asked(sets, BatchOf({{8, 12}})), PushAnswer::kSkipped);
  EXPECT_EQ(Asked(sets, BatchOf({{4, 8}})), PushAnswer::kApplied);
  EXPECT_EQ(Asked(sets, BatchOf({{0, 4}, {4, 8}})), PushAnswer::kOverlaps);
  EXPECT_EQ(Asked(sets, BatchOf({{11, 13}})), PushAnswer::kOverlaps);
  EXPECT_EQ(Asked(sets, BatchOf({{0, 4}}, 2)), PushAnswer::kApplied) << "another data set";
}

TEST(AppliedSetsTest, ALoadedPartitionTakesWhatItLacks) {
  AppliedSets sets;
  sets.Add(BatchOf({{0, 4}}));
  const AppliedSet old = sets.Of(9);
  sets.Add(BatchOf({{4, 8}}));
  sets.Set(9, old);
  EXPECT_FALSE(sets.AreOne());
  EXPECT_EQ(Asked(sets, BatchOf({{0, 4}})), PushAnswer::kSkipped);
  EXPECT_EQ(Asked(sets, BatchOf({{4, 8}})), PushAnswer::kApplied);
  const PartitionBits takes = sets.Takes(BatchOf({{4, 8}}));
  EXPECT_EQ(takes.count(), 1u);
  EXPECT_TRUE(takes[9]);
  sets.Add(BatchOf({{4, 8}}));
  EXPECT_TRUE(sets.AreOne());
}

TEST(AppliedSetsTest, PartitionsThatAreNotKeptHaveNoSay) {
  AppliedSets sets;
  PartitionBits kept;
  kept.set(3);
  kept.set(4);
  sets.Keep(kept);
  AppliedSet loaded;
  loaded[1].Add({0, 8});
  sets.Set(3, loaded);
  EXPECT_FALSE(sets.AreOne());
  sets.Set(4, loaded);
  EXPECT_TRUE(sets.AreOne());
  EXPECT_EQ(Asked(sets, BatchOf({{0, 8}})), PushAnswer::kSkipped);
}

TEST(AppliedSetsTest, AGroupForEachPartitionBecomesOne) {
  AppliedSets sets;
  for (uint32_t i = 0; i < kPartitions; ++i) {
    AppliedSet applied;
    applied[1].Add({0, 1 + i});
    sets.Set(i, applied);
  }
  for (uint32_t i = 0; i < kPartitions; ++i) EXPECT_EQ(sets.Of(i).at(1).total(), 1 + i);
  // They become equal once all have what the last one had.
  for (uint64_t i = 1; i <= kPartitions + 300; ++i) {
    const PushTag tag = BatchOf({{i, i + 1}});
    if (i % 256 == 0) {
      EXPECT_EQ(sets.Takes(tag).count(), std::min<uint64_t>(i, kPartitions));
    }
    sets.Add(tag);
  }
  EXPECT_TRUE(sets.AreOne());
}

}  // namespace
}  // namespace paceline::ps
