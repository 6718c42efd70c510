#include "paceline/cli/trace/node_rings.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

RingSlice SliceOf(int64_t rank, uint64_t generation, std::vector<uint64_t> numbers,
                  bool has_older = false) {
  RingSlice slice{.rank = rank, .generation = generation, .has_older = has_older};
  for (const uint64_t number : numbers) slice.entries.push_back({.number = number});
  return slice;
}
wire::RingPart PartOf(RingSlice slice, bool has_more = false, const std::string& boot = "b") {
  return {.boot_id = boot, .has_ring = true, .has_more = has_more, .slice = std::move(slice)};
}
std::vector<uint64_t> NumbersOf(const NodeRings& node, int64_t rank) {
  std::vector<uint64_t> numbers;
  for (const FlightEntry& entry : node.rings().at(rank).entries) numbers.push_back(entry.number);
  return numbers;
}

TEST(NodeRings, PutsPartsTogetherAndGoesToTheNextRank) {
  NodeRings node("n", Duration::Seconds(30));
  EXPECT_TRUE(node.Take(PartOf(SliceOf(4, 7, {8, 9}, /*has_older=*/true), /*has_more=*/true)));
  EXPECT_EQ(node.at().rank, 4u);
  EXPECT_EQ(node.at().generation, Generation(7));
  EXPECT_EQ(node.at().before, 8u);
  RingSlice older = SliceOf(4, 7, {5, 6, 7});
  older.whole_from_ns = 55;
  EXPECT_TRUE(node.Take(PartOf(std::move(older), /*has_more=*/true)));
  EXPECT_EQ(NumbersOf(node, 4), (std::vector<uint64_t>{5, 6, 7, 8, 9}));
  EXPECT_EQ(node.rings().at(4).whole_from_ns, 55);
  EXPECT_EQ(node.at().rank, 5u);
  EXPECT_EQ(node.at().before, 0u);
  EXPECT_EQ(node.at().last, Duration::Seconds(30));
  EXPECT_FALSE(node.is_complete());
  EXPECT_TRUE(node.Take(PartOf(SliceOf(9, 7, {1}))));
  EXPECT_TRUE(node.is_complete());
  EXPECT_EQ(node.records(), 6u);
}

TEST(NodeRings, ARankThatBeganAnewMeanwhileIsReadAnew) {
  NodeRings node("n", Duration::Seconds(30));
  EXPECT_TRUE(node.Take(PartOf(SliceOf(4, 7, {800, 900}, /*has_older=*/true))));
  EXPECT_TRUE(node.Take(PartOf(SliceOf(4, 8, {0, 1}))));
  EXPECT_EQ(NumbersOf(node, 4), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(node.records(), 2u);
  EXPECT_TRUE(node.is_complete());
}

TEST(NodeRings, AnAnswerThatWouldBeAskedForWithoutEndIsRefused) {
  NodeRings node("n", Duration::Seconds(30));
  EXPECT_TRUE(node.Take(PartOf(SliceOf(4, 7, {8, 9}, /*has_older=*/true))));
  EXPECT_FALSE(node.Take(PartOf(SliceOf(4, 7, {8, 9}, /*has_older=*/true))));
  EXPECT_FALSE(node.Take(PartOf(SliceOf(3, 7, {1}))));
  EXPECT_TRUE(node.Take({.boot_id = "b"}));
  EXPECT_TRUE(node.is_complete());
}

TEST(JoinNodes, NodesOfOneBootShareAHostAndOfEachRankTheNewestRingCounts) {
  std::vector<NodeRings> nodes;
  const auto add = [&](const std::string& name, const std::string& boot, int64_t monotonic,
                       RingSlice slice) {
    nodes.emplace_back(name, Duration::Seconds(1));
    wire::RingPart part = PartOf(std::move(slice), false, boot);
    part.now.monotonic_ns = monotonic;
    EXPECT_TRUE(nodes.back().Take(std::move(part)));
  };
  add("node0", "first", 5, SliceOf(0, 2, {1}));
  add("node1", "second", 6, SliceOf(1, 2, {1}));
  add("node2", "second", 7, SliceOf(2, 2, {1}));
  add("node3", "third", 8, SliceOf(1, 1, {1}));  // rank 1 was there, in a world before
  const TracedHosts all = JoinNodes("first", {Instant(), 4}, nodes);
  ASSERT_EQ(all.hosts.size(), 3u);
  EXPECT_EQ(all.hosts[0].monotonic_ns, 4);
  EXPECT_EQ(all.hosts[1].monotonic_ns, 6);
  ASSERT_EQ(all.ranks.size(), 3u);
  EXPECT_EQ(all.ranks[0].host, 0u);
  EXPECT_EQ(all.ranks[1].node, "node1");
  EXPECT_EQ(all.ranks[2].host, 1u);
  EXPECT_EQ(all.NodesOn(1), "node1, node2");
  EXPECT_EQ(all.NodesOn(2), "");
}

}  // namespace
}  // namespace paceline::cli
