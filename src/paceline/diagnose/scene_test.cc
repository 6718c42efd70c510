#include "paceline/diagnose/scene.h"

#include "gtest/gtest.h"
#include "paceline/diagnose/judge.h"
#include "paceline/diagnose/testing/scenes.h"

namespace paceline::diagnose {
namespace {

using testing::Entered;
using testing::SceneMaker;

TEST(Scene, GroupsOfTheSameRanksDifferByTheirCreation) {
  EXPECT_EQ("the world", GroupText("0 0-3", 4));
  EXPECT_EQ("the world", GroupText("start 0-3", 4));
  EXPECT_EQ("group 1 (ranks 0-3, created first)", GroupText("1 0-3", 4));
  EXPECT_EQ("group 2 (ranks 0-3, created second)", GroupText("2 0-3", 4));
  EXPECT_EQ("group 12 (ranks 0-1,3, created 12th)", GroupText("12 0-1,3", 4));
  EXPECT_EQ("group 23 (rank 3, created 23rd)", GroupText("23 3", 4));
  EXPECT_EQ("group 111 (ranks 0-1, created 111th)", GroupText("111 0-1", 4));
}

TEST(Scene, AGroupWithoutANumberHasItsMembersOrItsName) {
  EXPECT_EQ("group 0a1b2c3d4e5f (ranks 0-1)", GroupText("0a1b2c3d4e5f60718293 0-1", 4));
  EXPECT_EQ("group 7 (created seventh)", GroupText("7", 4));  // too many members for its text
  EXPECT_EQ("group tp", GroupText("tp", 4));
  EXPECT_EQ("group ", GroupText("", 4));
}

TEST(Scene, ACallOfTheWorldHasItsPlaceInParentheses) {
  EXPECT_EQ("all_reduce 8 of the world (train.py:44)", CollectiveText(Entered("0 0-1", 8), 2));
  EXPECT_EQ("all_reduce 8 of group 3 (ranks 0-1, created third) at train.py:44",
            CollectiveText(Entered("3 0-1", 8), 4));
}

TEST(Scene, AStoppedWorkerOfALoaderIsNamedWithTheLineThatWaitsForIt) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(11));
  made[2].phase = RankPhase::kData;
  made[2].phase_longest = Duration::Seconds(1);
  made[2].waits_in = "read of a socket";
  made[2].stopped_child = 4711;
  Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kBlocked, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_TRUE(verdict.sentence.starts_with(
      "Rank 2 on node0 does not go on in train.py:41, data; its loader's worker, process 4711, is "
      "stopped (kill -CONT 4711 continues it)."))
      << verdict.sentence;
  EXPECT_NE(std::string::npos, verdict.lines[0].find("its loader's worker, process 4711"));

  made[2].phase = RankPhase::kCheckpoint;
  verdict = Judge(made.facts());
  EXPECT_NE(std::string::npos, verdict.sentence.find("; its child process 4711 is stopped"))
      << verdict.sentence;
}

TEST(Scene, RanksWithStoppedChildrenShareNoWait) {
  SceneMaker made(4);
  made.Wait({1, 2}, Duration::Seconds(11));
  for (const uint32_t rank : {1U, 2U}) {
    made[rank].waits_in = "read of a socket";
    made[rank].stopped_child = static_cast<int32_t>(70 + rank);
  }
  EXPECT_EQ(RanksOf({1, 2}), Judge(made.facts()).culprits);
}

}  // namespace
}  // namespace paceline::diagnose
