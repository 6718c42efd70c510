#include "paceline/model/table_routing.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace paceline {
namespace {

// Carries out all moves; returns how many there were.
int Settle(TableRouting* routing, uint32_t servers) {
  int moves = 0;
  while (const auto move = NextTableMove(*routing, servers, routing->version())) {
    for (const uint32_t partition : move->partitions) {
      EXPECT_EQ(routing->Of(partition), move->from);
    }
    routing->Move(move->partitions, move->to);
    if (++moves > 1'000) break;
  }
  return moves;
}

TEST(TableRoutingTest, TheFirstOneSpreadsThePartitionsAndNothingMoves) {
  for (const uint32_t servers : {1u, 2u, 3u, 7u, 64u}) {
    TableRouting routing(servers);
    EXPECT_EQ(routing.end(), servers);
    EXPECT_EQ(Settle(&routing, servers), 0) << servers;
  }
}

TEST(TableRoutingTest, MovesEndWithEquallyManyPartitionsOnEachServer) {
  for (const uint32_t before : {1u, 2u, 4u, 5u}) {
    for (const uint32_t after : {1u, 2u, 3u, 4u, 6u}) {
      TableRouting routing(before);
      Settle(&routing, after);
      EXPECT_EQ(routing.end(), after);
      for (uint32_t server = 0; server < after; ++server) {
        EXPECT_NEAR(routing.CountOf(server), kTablePartitions / after, 1) << before << " " << after;
      }
    }
  }
}

TEST(TableRoutingTest, NoPartitionMovesTwice) {
  TableRouting routing(2);
  std::vector<uint32_t> seen;
  while (const auto move = NextTableMove(routing, 4, 1)) {
    for (const uint32_t partition : move->partitions) seen.push_back(partition);
    routing.Move(move->partitions, move->to);
  }
  EXPECT_EQ(seen.size(), kTablePartitions / 2);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(TableRoutingTest, AServerThatIsToEndGivesFirst) {
  TableRouting routing(1);
  Settle(&routing, 3);
  const auto move = NextTableMove(routing, 2, 7);
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->from, 2u);
  EXPECT_EQ(move->id, 7u);
}

TEST(TableRoutingTest, NewsComeThroughAsTheyWere) {
  TableRouting routing(3);
  routing.Move({5, 6}, 2);
  for (const uint32_t servers : {2u, 3u}) {
    const RoutingNews news{.id = 9, .routing = routing, .move = NextTableMove(routing, servers, 9)};
    EXPECT_EQ(ParseNews(EncodeNews(news)), news);
  }
  const RoutingNews still{.id = 1, .routing = TableRouting(3)};
  EXPECT_EQ(ParseNews(EncodeNews(still)), still);
  const PartitionsTaken taken{
      .id = 9, .from = 1, .to = 2, .count = 3, .from_generation = 4, .to_generation = 5};
  EXPECT_EQ(ParseTaken(EncodeTaken(taken)), taken);
}

TEST(TableRoutingTest, MalformedNewsAreNone) {
  const std::string whole = EncodeNews({.id = 1, .routing = TableRouting(2)});
  EXPECT_TRUE(ParseNews(whole).has_value());
  EXPECT_FALSE(ParseNews(whole.substr(0, whole.size() - 4)).has_value());
  EXPECT_FALSE(ParseNews(whole + "1 2\n").has_value());
  EXPECT_FALSE(ParseNews(whole + "1 2 4096\n").has_value());
  EXPECT_FALSE(ParseNews("x" + whole).has_value());
  EXPECT_FALSE(ParseNews("").has_value());
  EXPECT_FALSE(ParseTaken("1 2 3 4 5").has_value());
  EXPECT_FALSE(ParseTaken("1 2 5000 4 5 6").has_value());
}

}  // namespace
}  // namespace paceline
