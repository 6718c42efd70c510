#include "paceline/model/task.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(TaskTest, TheFirstWorkerIsTheChief) {
  std::string names;
  for (const Rank rank : TaskRanks({.workers = 3, .servers = 2, .evaluators = 1})) {
    names += RankName(rank) + " ";
    EXPECT_TRUE(IsTask(rank));
    EXPECT_LE(rank.value(), kTaskRankMax);
    EXPECT_EQ(TaskOfName(RankName(rank)), rank);
    EXPECT_EQ(RankOfLogStem(LogStem(rank)), rank);
  }
  EXPECT_EQ(names, "chief-0 worker-0 worker-1 ps-0 ps-1 evaluator-0 ");
  EXPECT_TRUE(TaskRanks({.workers = 0, .servers = 2}).empty());
}

TEST(TaskTest, ARankOfAWorldIsNoTask) {
  EXPECT_FALSE(IsTask(Rank(kTaskKindStep - 1)));
  EXPECT_EQ(RankName(Rank(7)), "7");
  EXPECT_EQ(RankTitle(Rank(7)), "rank 7");
  EXPECT_EQ(LogStem(Rank(7)), "rank7");
  EXPECT_EQ(RankOfLogStem("rank7"), Rank(7));
  EXPECT_FALSE(RankOfLogStem("rank").has_value());
  EXPECT_EQ(RankTitle(TaskRank(TaskKind::kPs, 1)), "ps-1");
}

TEST(TaskTest, OnlyNamesOfTasksAreTaken) {
  for (const char* text : {"", "ps", "ps-", "ps-x", "ps-1x", "worker1", "boss-0", "ps-99999"}) {
    EXPECT_FALSE(TaskOfName(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace paceline
