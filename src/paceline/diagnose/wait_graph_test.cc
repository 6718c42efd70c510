#include "paceline/diagnose/wait_graph.h"

#include <gtest/gtest.h>

#include "paceline/diagnose/testing/scenes.h"

namespace paceline::diagnose {
namespace {

using testing::Entered;
using testing::Left;
using testing::SceneMaker;
using RankSet = std::set<uint32_t>;

TEST(MembersOf, ReadsRunsAndSingleRanks) {
  EXPECT_EQ((std::vector<uint32_t>{0, 1, 2, 3, 8}), MembersOf("0 0-3,8"));
  EXPECT_EQ((std::vector<uint32_t>{5}), MembersOf("tp 5"));
}

TEST(MembersOf, TakesNothingFromABrokenText) {
  for (const char* text : {"", "0", "0 x", "0 3-1", "0 0-4000000000", "0 1-", "0 -"}) {
    EXPECT_TRUE(MembersOf(text).empty()) << text;
  }
}

TEST(WaitGraph, WhoHasNotBegunIsAwaited) {
  SceneMaker made(4);
  made.All({Left("w 0-3", 187)});
  for (const uint32_t rank : {0U, 1U, 3U}) made.Add(rank, Entered("w 0-3", 188));
  const Facts facts = made.facts();
  const WaitGraph graph = MakeWaitGraph(facts);
  EXPECT_EQ(RankSet({2}), graph.roots);
  EXPECT_EQ(RankSet({2}), AwaitedBy(graph, 0));
  EXPECT_EQ(3u, graph.awaits.size());
}

TEST(WaitGraph, WhoNeverToldOfTheGroupIsAwaited) {
  SceneMaker made(2);
  made.Add(0, Entered("w 0-1", 1));
  const Facts facts = made.facts();
  EXPECT_EQ(RankSet({1}), MakeWaitGraph(facts).roots);
}

// On a GPU the host runs ahead: it has begun the collective in which the others wait, but has not
// completed the one before.
TEST(WaitGraph, WhoHasBegunButNotComeSoFarIsAwaited) {
  SceneMaker made(2);
  made.Add(0, Left("w 0-1", 6));
  made.Add(0, Entered("w 0-1", 7));
  made.Add(1, Entered("w 0-1", 5));
  made.Add(1, Entered("w 0-1", 6));
  made.Add(1, Entered("w 0-1", 7));
  const Facts facts = made.facts();
  EXPECT_EQ(RankSet({1}), MakeWaitGraph(facts).roots);
}

TEST(WaitGraph, ChainsOfGroupsEndAtTheRootAlone) {
  // 0 and 1 wait in their pair for 1's other pair: 1 waits for 2, which is absent.
  SceneMaker made(4);
  made.Add(0, Entered("d 0-1", 3));
  made.Add(1, Left("d 0-1", 2));
  made.Add(1, Entered("t 1-2", 9));
  made.Add(2, Left("t 1-2", 8));
  const Facts facts = made.facts();
  const WaitGraph graph = MakeWaitGraph(facts);
  EXPECT_EQ(RankSet({2}), graph.roots);
  EXPECT_EQ(RankSet({1}), AwaitedBy(graph, 0));
}

TEST(WaitGraph, WhenAllHaveComeNobodyIsAwaited) {
  SceneMaker made(3);
  made.All({Entered("w 0-2", 4)});
  const Facts facts = made.facts();
  const WaitGraph graph = MakeWaitGraph(facts);
  EXPECT_TRUE(graph.roots.empty());
  EXPECT_TRUE(graph.awaits.empty());
  EXPECT_EQ(3u, graph.waits_in.size());
}

TEST(WaitGraph, TwoThatWaitForEachOtherAreACircle) {
  SceneMaker made(3);
  made.Add(0, Entered("a 0-1", 1));
  made.Add(1, Entered("b 0-1", 1));
  made.Add(2, Entered("c 0,2", 1));  // waits for the circle but is not in it
  const Facts facts = made.facts();
  const WaitGraph graph = MakeWaitGraph(facts);
  EXPECT_TRUE(graph.roots.empty());
  EXPECT_EQ(RankSet({0, 1}), graph.circle);
}

TEST(WaitGraph, ARankThatNobodyHeardOfIsNotBlamed) {
  SceneMaker made(3);
  made.All({Entered("w 0-2", 4)});
  made.Forget(1);
  const Facts facts = made.facts();
  EXPECT_TRUE(MakeWaitGraph(facts).roots.empty());
}

}  // namespace
}  // namespace paceline::diagnose
