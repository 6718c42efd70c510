#include "paceline/core/world_count.h"

#include <gtest/gtest.h>

namespace paceline::core {
namespace {

Record Formed(uint64_t generation, uint32_t restarts) {
  World world;
  world.generation = Generation(generation);
  world.restart_count = restarts;
  world.seats.push_back(Seat{.node = NodeId(1), .first_rank = 0, .rank_count = 2});
  return {.fact = WorldFormed{.world = world, .reason = "all nodes are here"}};
}

TEST(WorldCount, CountsWorldsWhereGenerationsSkip) {
  WorldCount worlds;
  EXPECT_EQ(worlds.Of(Generation(3)), 3);
  const Record records[] = {Formed(1, 0), Formed(2, 1), Formed(67, 2)};
  for (const Record& record : records) worlds.Fold(record);
  EXPECT_EQ(worlds.Of(Generation(2)), 2);
  EXPECT_EQ(worlds.Of(Generation(67)), 3);
  EXPECT_EQ(worlds.Of(Generation(69)), 5);  // the node formed two by itself
  EXPECT_EQ(worlds.Of(GenerationOf(2, 1)), 1);
}

TEST(WorldCount, SentencesHaveTheCount) {
  WorldCount worlds;
  worlds.Fold(Formed(67, 2));
  EXPECT_EQ(Sentence(Formed(67, 2), worlds),
            "world 3 (generation 67) has 1 node and 2 ranks: all nodes are here");
  EXPECT_EQ(Sentence(Formed(67, 2)), "world 67 has 1 node and 2 ranks: all nodes are here");
  EXPECT_EQ(Sentence({.fact = WorldRunning{.generation = Generation(67), .step = 4}}, worlds),
            "world 3 trains, at step 4");
}

}  // namespace
}  // namespace paceline::core
