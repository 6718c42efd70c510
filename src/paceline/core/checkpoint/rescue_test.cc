#include "paceline/core/checkpoint/rescue.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "paceline/core/checkpoint/rank_text.h"

namespace paceline::core {
namespace {

SavedStep Saved(int64_t step) { return {1, step}; }

MemoryImage SavedBy(uint32_t rank, const std::string& place, int64_t step, uint32_t of = 2) {
  return {.rank = Rank(rank),
          .place = place,
          .saved = Saved(step),
          .world_size = of,
          .file_bytes = 100,
          .file_root = 10 + rank};
}

MemoryImage CopiedFrom(uint32_t rank, const std::string& place, int64_t step, uint32_t of = 2) {
  MemoryImage image = SavedBy(rank, place, step, of);
  image.is_copy = true;
  return image;
}

RescueAnswer AnswerFrom(const std::string& node, std::vector<MemoryImage> images) {
  RescueAnswer answer;
  answer.node = node;
  answer.images = std::move(images);
  return answer;
}

std::vector<std::string> WritersOf(const Rescuable& found) {
  std::vector<std::string> nodes;
  for (const RescueShard& shard : found.shards) nodes.push_back(shard.node);
  return nodes;
}

TEST(Rescue, ACopyStandsForTheLostHostsRank) {
  const Rescuable found = FindRescuable(
      {AnswerFrom("n1", {SavedBy(1, "n1", 8), SavedBy(1, "n1", 7), CopiedFrom(0, "n1", 7)})});
  ASSERT_EQ(found.whole, Saved(7));
  EXPECT_EQ(found.world_size, 2U);
  EXPECT_EQ(found.newest, Saved(8)) << "but rank 0's was only in the lost host's memory";
  EXPECT_EQ(found.missing, std::set<uint32_t>{0});
  EXPECT_EQ(found.shards, (std::vector<RescueShard>{{Rank(0), Rank(0), Rank(0), "n1"},
                                                    {Rank(1), Rank(1), Rank(1), "n1"}}));
}

TEST(Rescue, EachHostWritesWhatItHas) {
  const Rescuable found =
      FindRescuable({AnswerFrom("n1", {SavedBy(1, "n1", 7, 3), CopiedFrom(2, "n1", 7, 3)}),
                     AnswerFrom("n2", {SavedBy(2, "n2", 7, 3), CopiedFrom(0, "n2", 7, 3)})});
  ASSERT_EQ(found.whole, Saved(7));
  EXPECT_EQ(WritersOf(found), (std::vector<std::string>{"n2", "n1", "n2"}))
      << "a rank's own image before a copy";
}

TEST(Rescue, WithoutAllImagesTheNewestStepAndItsMissingRanksAreNamed) {
  const Rescuable found =
      FindRescuable({AnswerFrom("n1", {SavedBy(1, "n1", 7, 4)}), AnswerFrom("n2", {})});
  EXPECT_FALSE(found.whole.has_value());
  EXPECT_EQ(found.newest, Saved(7));
  EXPECT_EQ(found.missing, (std::set<uint32_t>{0, 2, 3}));
  EXPECT_EQ(RankText(found.missing), "ranks 0, 2, 3");
}

TEST(Rescue, NoHostHasAnything) {
  const Rescuable found = FindRescuable({AnswerFrom("n1", {})});
  EXPECT_FALSE(found.whole.has_value());
  EXPECT_FALSE(found.newest.has_value());
}

TEST(Rescue, AnEqualFileStandsForALostRankWithItsNotes) {
  MemoryImage replica = SavedBy(1, "n1", 9);
  replica.is_replica = true;
  const Rescuable found = FindRescuable({AnswerFrom("n1", {replica})});
  ASSERT_EQ(found.whole, Saved(9));
  EXPECT_EQ(found.shards, (std::vector<RescueShard>{{Rank(0), Rank(0), Rank(1), "n1"},
                                                    {Rank(1), Rank(0), Rank(1), "n1"}}))
      << "one file for both";
}

TEST(Rescue, FilesThatWereKnownToBeEqualStandForEachOther) {
  RescueAnswer answer = AnswerFrom("n1", {SavedBy(1, "n1", 9)});
  answer.equal = {{Saved(9), 11, {{0, 2}}}};
  EXPECT_EQ(FindRescuable({answer}).whole, Saved(9));
  answer.equal = {{Saved(8), 11, {{0, 2}}}};
  EXPECT_FALSE(FindRescuable({answer}).whole.has_value()) << "of another step";
  answer.equal = {{Saved(9), 12, {{0, 2}}}};
  EXPECT_FALSE(FindRescuable({answer}).whole.has_value()) << "of another file";
}

TEST(Rescue, ANewerWorldsLowerStepIsTheNewer) {
  MemoryImage old = SavedBy(0, "n1", 90, 1);
  MemoryImage now = SavedBy(0, "n1", 20, 1);
  now.saved.generation = 2;
  EXPECT_EQ(FindRescuable({AnswerFrom("n1", {old, now})}).whole, (SavedStep{2, 20}));
}

TEST(Rescue, ANodeWritesOnlyItsOwnArenas) {
  const Rescuable found = FindRescuable({AnswerFrom("n1", {SavedBy(0, "n2", 7, 1)})});
  EXPECT_FALSE(found.whole.has_value()) << "n2's agent has not answered";
  EXPECT_EQ(FindRescuable({AnswerFrom("n1", {SavedBy(0, "n1.disk", 7, 1)})}).whole, Saved(7));
}

TEST(Rescue, ABrokenAnswerIsNoStep) {
  const Rescuable found = FindRescuable(
      {AnswerFrom("n1", {SavedBy(3, "n1", 7, 2), SavedBy(0, "n1", 8, 4'000'000'000)})});
  EXPECT_FALSE(found.newest.has_value());
}

TEST(Rescue, ManyRanksAreCounted) {
  std::set<uint32_t> ranks;
  for (uint32_t rank = 0; rank < 11; ++rank) ranks.insert(rank);
  EXPECT_EQ(RankText(ranks), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
  EXPECT_EQ(RankText({4}), "rank 4");
}

}  // namespace
}  // namespace paceline::core
