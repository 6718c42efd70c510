#include "paceline/sim/table/table_world.h"

#include <gtest/gtest.h>

#include "paceline/sim/main.h"
#include "paceline/sim/table/table_swarm.h"

namespace paceline::sim {
namespace {

TEST(TableWorldTest, EachSampleCountsOnceWhileServersComeGoAndDie) {
  uint64_t moves = 0;
  uint64_t losses = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const TableOutcome outcome = RunTableWorld(seed, TableCanary::kNone);
    EXPECT_EQ(outcome.wrong, "") << "seed " << seed;
    moves += outcome.moves;
    losses += outcome.losses;
  }
  EXPECT_GT(moves, 5u);
  EXPECT_GT(losses, 5u);
}

TEST(TableWorldTest, ASeedRepeatsItself) {
  EXPECT_EQ(RunTableWorld(3, TableCanary::kNone).unseed,
            RunTableWorld(3, TableCanary::kNone).unseed);
}

TEST(TableWorldLongTest, EachCanaryIsFoundAndManySeedsAreRight) {
  std::string wrong;
  EXPECT_EQ(RunTableCommand({"--tables", "--canary", "all"}, &wrong), 0);
  EXPECT_EQ(RunTableCommand({"--tables", "--seed", "6", "--seeds", "60"}, &wrong), 0);
}

TEST(TableWorldTest, TheCommandRefusesWrongWords) {
  std::string wrong;
  EXPECT_EQ(RunTableCommand({"--tables", "--canary", "x"}, &wrong), kUsage);
  EXPECT_NE(wrong, "");
  EXPECT_EQ(RunTableCommand({"--tables", "--seed"}, &wrong), kUsage);
}

}  // namespace
}  // namespace paceline::sim
