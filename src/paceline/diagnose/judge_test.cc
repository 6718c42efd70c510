#include "paceline/diagnose/judge.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/base/text.h"
#include "paceline/diagnose/testing/scenes.h"

namespace paceline::diagnose {
namespace {

using testing::Entered;
using testing::Left;
using testing::SceneMaker;

std::vector<Rank> RankList(std::initializer_list<uint32_t> ranks) {
  std::vector<Rank> list;
  for (const uint32_t rank : ranks) list.push_back(Rank(rank));
  return list;
}

TEST(Judge, AStoppedRankIsNamedWithItsLineAndRestartedAtOnce) {
  SceneMaker made(4);
  made.Wait({2});
  made[2].state = 'T';
  made[2].stopped_by = 19;
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kStopped, verdict.hang);
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(RankList({2}), verdict.culprits);
  EXPECT_EQ(
      "Rank 2 on node0 was stopped (SIGSTOP) in train.py:41, forward. Ranks 0, 1 and 3 waited 3.0 "
      "s for it in all_reduce 188 of the world (train.py:44).",
      verdict.sentence);
  EXPECT_EQ("was stopped (SIGSTOP) in train.py:41, forward", verdict.headline);
  ASSERT_EQ(4u, verdict.lines.size());
  EXPECT_EQ("rank 2 on node0: stopped in train.py:41, forward; 0 ms of CPU in 500 ms",
            verdict.lines[0]);
}

TEST(Judge, AStopThatIsYoungIsLookedAtAgainInTime) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Milliseconds(1200));
  made[2].state = 'T';
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangAct::kNone, verdict.act);
  EXPECT_EQ(Duration::Milliseconds(1800), verdict.look_again);
}

TEST(Judge, LongStepsAreGivenThreeOfThem) {
  SceneMaker made(4);
  made.Wait({2});
  made[2].state = 'T';
  made[2].step_p99 = Duration::Seconds(10);
  EXPECT_EQ(Duration::Seconds(27), Judge(made.facts()).look_again);
}

TEST(Judge, SeveralStoppedRanksAreToldOfWithTheWayOut) {
  SceneMaker made(4);
  made.Wait({1, 2});
  made[1].state = made[2].state = 'T';
  made[1].pid = 71;
  made[2].pid = 72;
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_EQ(RankList({1, 2}), verdict.culprits);
  EXPECT_NE(std::string::npos, verdict.sentence.find("Ranks 1 and 2 were stopped"))
      << verdict.sentence;
  EXPECT_NE(std::string::npos, verdict.sentence.find(" On node0: kill -CONT 71 72."))
      << verdict.sentence;
}

TEST(Judge, ARankThatIsStoppedInsideOfACollectiveIsWaitedFor) {
  SceneMaker made(4);
  made.Wait({});
  made[1].state = 'T';
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(RankList({1}), verdict.culprits);
}

TEST(Judge, AStoppedRankWithoutRecordsIsWaitedFor) {
  SceneMaker made(4);
  made.Wait({1});
  made[1].state = 'T';
  made[1].has_ring = false;
  made[1].collectives.clear();
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(RankList({1}), verdict.culprits);
  EXPECT_NE(std::string::npos, verdict.lines[0].find("; no records"));
}

// The rank holds the GIL, so the end of its last collective is not recorded.
TEST(Judge, AnEndThatIsNotWrittenIsNoWait) {
  for (const bool has_turned : {true, false}) {
    SceneMaker made(4);
    made.Wait({1}, Duration::Seconds(31));
    made[1].collectives.back().is_complete = false;
    made[1].collectives.back().age = Duration::Seconds(32);
    made[1].in_phase = Duration::Seconds(has_turned ? 31 : 40);
    const Verdict verdict = Judge(made.facts());
    EXPECT_EQ(has_turned ? HangClass::kBlocked : HangClass::kEverybody, verdict.hang);
    if (has_turned) continue;
    EXPECT_EQ(
        "Rank 1 entered all_reduce 187 of the world (train.py:44) 32.0 s ago and has not left it, "
        "though ranks 0, 2 and 3 have. The network between them is the likely cause; no rank is to "
        "blame.",
        verdict.sentence);
  }
}

TEST(Judge, OneFileThatAllWaitForIsNamedAndNoRank) {
  SceneMaker made(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    made[rank].phase = RankPhase::kData;
    made[rank].phase_longest = Duration::Seconds(1);
    made[rank].quiet_for = Duration::Seconds(11);
    made[rank].waits_in = "read of /data/train.bin";
  }
  const Verdict verdict = Judge(made.facts());
  EXPECT_TRUE(verdict.culprits.empty());
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_EQ("Ranks 0–2 have waited 11.0 s in read of /data/train.bin. No rank is to blame.",
            verdict.sentence);
  made[1].waits_in = "read of /data/other.bin";
  EXPECT_EQ(HangAct::kNone, Judge(made.facts()).act);
}

TEST(Judge, AnAbsentRankOfUnknownSpeedIsNamedAfterTenSecondsAndNeverRestarted) {
  for (const int64_t seconds : {9, 10, 6000}) {
    SceneMaker made(4);
    made.Wait({2}, Duration::Seconds(seconds));
    for (const uint32_t rank : {0U, 1U, 2U, 3U}) made[rank].step_p99 = Duration();
    const Verdict verdict = Judge(made.facts());
    EXPECT_EQ(seconds < 10 ? HangAct::kNone : HangAct::kTell, verdict.act) << seconds;
    EXPECT_EQ(seconds < 10 ? RankList({}) : RankList({2}), verdict.culprits) << seconds;
  }
}

TEST(Judge, AStartThatNobodyLeavesIsToldOfAfterAMinute) {
  for (const int64_t seconds : {59, 60}) {
    SceneMaker made(2);
    CollectiveSeen start = Entered("start 0-1", 1);
    start.operation = "init_process_group";
    start.age = Duration::Seconds(seconds);
    made.All({start});
    for (const uint32_t rank : {0U, 1U}) {
      made[rank].phase = RankPhase::kStart;
      made[rank].step_p99 = Duration();
    }
    EXPECT_EQ(seconds < 60 ? HangAct::kNone : HangAct::kTell, Judge(made.facts()).act);
  }
}

TEST(Judge, AStoppedRankThatNobodyWaitsForIsOnlyToldOf) {
  SceneMaker made(2);
  made[1].state = 'T';
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kStopped, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
}

// With a torch that has no hooks for DDP's collectives, which block the backward.
TEST(Judge, AStoppedRankIsWaitedForWhereAllOthersSleepInBackward) {
  const auto make = [] {
    SceneMaker made(4);
    made[2].state = 'T';
    made[2].stopped_by = 19;
    for (const uint32_t other : {0, 1, 3}) made[other].phase = RankPhase::kBackward;
    return made;
  };
  const Verdict verdict = Judge(make().facts());
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(RankList({2}), verdict.culprits);
  EXPECT_EQ(
      "Rank 2 on node0 was stopped (SIGSTOP) in train.py:41, forward. Ranks 0, 1 and 3 have slept "
      "in backward for 3.0 s.",
      verdict.sentence);

  SceneMaker young = make();
  young[3].quiet_for = Duration::Milliseconds(2800);
  EXPECT_EQ(HangAct::kNone, Judge(young.facts()).act);
  EXPECT_EQ(Duration::Milliseconds(200), Judge(young.facts()).look_again);

  SceneMaker computes = make();
  computes[1].cpu = Duration::Milliseconds(300);
  EXPECT_EQ(HangAct::kTell, Judge(computes.facts()).act);
  SceneMaker elsewhere = make();
  elsewhere[1].phase = RankPhase::kForward;
  EXPECT_EQ(HangAct::kTell, Judge(elsewhere.facts()).act);
  SceneMaker unknown = make();
  unknown.Forget(3);
  EXPECT_EQ(HangAct::kTell, Judge(unknown.facts()).act);
}

TEST(Judge, ADebuggerForbidsEveryAct) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(5000));
  made[2].state = 't';
  made[3].state = 'T';
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kDebugger, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
}

TEST(Judge, AnotherOperationNamesBothCallSites) {
  SceneMaker made(4);
  made.Wait({2});
  CollectiveSeen other = Entered("0 0-3", 188);
  other.operation = "broadcast";
  other.site = "train.py:50";
  made.Add(2, other);
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kMismatch, verdict.hang);
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(RankList({2}), verdict.culprits);
  EXPECT_EQ(
      "Rank 2 made another call than ranks 0, 1 and 3: broadcast of 4096 bytes of float32 at "
      "train.py:50, not all_reduce of 4096 bytes of float32 at train.py:44. It was call 188 of the "
      "world.",
      verdict.sentence);
}

TEST(Judge, AFailedRankThatWasInAnotherCallThanItsPeersIsExplainedByIt) {
  SceneMaker made(3);
  made.Wait({});
  made[1].collectives.back().bytes = 4100;
  made[1].collectives.back().site = "train.py:60";
  const auto evidence = [&made] {
    std::vector<RankEvidence> ranks;
    for (const RankFacts& rank : made.facts().ranks) ranks.push_back(rank.evidence);
    return ranks;
  };
  for (const uint32_t failed : {0, 1, 2}) {
    const auto other = FindOtherCall(evidence(), Rank(failed));
    ASSERT_TRUE(other.has_value());
    EXPECT_EQ(
        "rank 1 made another call than ranks 0 and 2: all_reduce of 4100 bytes of float32 at "
        "train.py:60, not all_reduce of 4096 bytes of float32 at train.py:44",
        other->sentence);
    EXPECT_EQ("mismatched call@train.py:60|train.py:44", other->fingerprint);
  }
  EXPECT_FALSE(FindOtherCall(evidence(), Rank(7)).has_value());
  made[1].collectives.pop_back();  // it has not come to the call
  EXPECT_FALSE(FindOtherCall(evidence(), Rank(0)).has_value());
}

TEST(Judge, SizesAreComparedOnlyWhereTheyMustBeEqual) {
  for (const bool must : {true, false}) {
    SceneMaker made(3);
    for (const uint32_t rank : {0U, 1U, 2U}) {
      CollectiveSeen seen = Entered("0 0-2", 5);
      seen.operation = must ? "all_reduce" : "all_to_all";
      seen.bytes = rank == 1 ? 8 : 4;
      made.Add(rank, seen);
    }
    EXPECT_EQ(must ? HangClass::kMismatch : HangClass::kNone, Judge(made.facts()).hang);
  }
}

TEST(Judge, ABusyRankIsNamedFirstAndRestartedLater) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(4));
  made[2].cpu = Duration::Milliseconds(490);
  Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kBusy, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_EQ(RankList({2}), verdict.culprits);
  EXPECT_EQ(Duration::Seconds(60), verdict.look_again);  // never more
  SceneMaker later(4);
  later.Wait({2}, Duration::Seconds(120));
  later[2].cpu = Duration::Milliseconds(490);
  EXPECT_EQ(HangAct::kRestart, Judge(later.facts()).act);
}

TEST(Judge, ARankThatCouldRunIsBusyThoughItGetsLittleTime) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(40));
  made[2].state = 'R';
  made[2].cpu = Duration::Milliseconds(90);
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kBusy, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
}

TEST(Judge, ABlockedRankIsRestartedAfterThirtySeconds) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(29));
  EXPECT_EQ(HangClass::kBlocked, Judge(made.facts()).hang);
  EXPECT_EQ(HangAct::kTell, Judge(made.facts()).act);
  EXPECT_EQ(Duration::Seconds(1), Judge(made.facts()).look_again);
  SceneMaker later(4);
  later.Wait({2}, Duration::Seconds(30));
  EXPECT_EQ(HangAct::kRestart, Judge(later.facts()).act);
}

TEST(Judge, AGivenTimeReplacesThatOfTheTableWhereThereIsOne) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(11));
  Facts facts = made.facts();
  facts.act_after = Duration::Seconds(10);
  EXPECT_EQ(HangAct::kRestart, Judge(facts).act);
  made[2].phase = RankPhase::kEvaluation;
  made.Wait({2}, Duration::Seconds(5000));
  facts = made.facts();
  facts.act_after = Duration::Seconds(10);
  EXPECT_EQ(HangAct::kTell, Judge(facts).act);
}

// Only rank 0 runs a loop over a validation set, with a model that no hook sees.
TEST(Judge, ARankThatGoesFromBatchToBatchIsAtWork) {
  SceneMaker made(4);
  made.Wait({0}, Duration::Seconds(5000));
  made[0].quiet_for = Duration::Milliseconds(50);
  made[0].cpu = Duration::Milliseconds(490);
  EXPECT_EQ(HangAct::kNone, Judge(made.facts()).act);
}

TEST(Judge, WhatMovesBytesIsSlowAndNotHung) {
  SceneMaker made(4);
  made.Wait({2}, Duration::Seconds(5000));
  made[2].moved = true;
  EXPECT_EQ(HangAct::kTell, Judge(made.facts()).act);
  // A process that asks a silent name server reads a few bytes every 5 or 10 s. The next look is at
  // another moment of that rhythm.
  const int64_t next = Judge(made.facts()).look_again.milliseconds() % 5'000;
  EXPECT_GE(next, 1'000);
  EXPECT_LE(next, 4'000);
}

TEST(Judge, RanksThatAskDifferentNameServersWaitForOneThing) {
  SceneMaker made(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    made[rank].quiet_for = Duration::Seconds(11);
    made[rank].waits_in = Concat("poll of 10.0.0.", 2 + rank % 2, ":53, a name server");
  }
  EXPECT_EQ(
      "Ranks 0–2 have waited 11.0 s in poll of 10.0.0.2:53 and 10.0.0.3:53, name servers. No rank "
      "is to blame.",
      Judge(made.facts()).sentence);
  made[2].waits_in = "receive from 10.0.0.2:8080";
  EXPECT_NE(HangClass::kEverybody, Judge(made.facts()).hang);
}

TEST(Judge, AHostWithoutFreeProcessorsTriplesTheTimesOfARankThatComputes) {
  const auto judge = [](Duration waited, char state, Duration cpu) {
    SceneMaker made(4);
    made.Wait({2}, waited);
    made[2].state = state;
    made[2].cpu = cpu;
    made[2].is_pressed = true;
    return Judge(made.facts()).act;
  };
  const Duration little = Duration::Milliseconds(20);  // of a loader's workers
  EXPECT_EQ(HangAct::kNone, judge(Duration::Seconds(8), 'S', little));
  EXPECT_EQ(HangAct::kTell, judge(Duration::Seconds(9), 'S', little));
  EXPECT_EQ(HangAct::kTell, judge(Duration::Seconds(89), 'S', little));
  EXPECT_EQ(HangAct::kRestart, judge(Duration::Seconds(90), 'S', little));
  EXPECT_EQ(HangAct::kNone, judge(Duration::Seconds(8), 'R', Duration()));
  // A rank that sleeps waits for no processor, and a signal is a fact.
  EXPECT_EQ(HangAct::kTell, judge(Duration::Seconds(3), 'S', Duration()));
  EXPECT_EQ(HangAct::kRestart, judge(Duration::Seconds(3), 'T', little));
}

TEST(Judge, WhenAllBlockOnOneThingThatIsNamedAndNoRank) {
  SceneMaker made(4);
  made.Wait({1, 2}, Duration::Seconds(5000));
  made[1].waits_in = made[2].waits_in = "read of /data/train.bin";
  const Verdict verdict = Judge(made.facts());
  EXPECT_TRUE(verdict.culprits.empty());
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_EQ(
      "Ranks 1 and 2 wait in read of /data/train.bin. No rank is to blame. Ranks 0 and 3 waited "
      "5000.0 s for them in all_reduce 188 of the world (train.py:44).",
      verdict.sentence);
}

TEST(Judge, AllEnteredAndNoneLeavesBlamesNoRank) {
  SceneMaker made(4);
  made.Wait({}, Duration::Seconds(31));
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kEverybody, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_TRUE(verdict.culprits.empty());
}

TEST(Judge, ARootThatStandsInACollectiveToWhichAllHaveComeIsNotBlamed) {
  // 2 and 3 are in a collective of their own that does not end. 0 and 1 wait for them.
  SceneMaker made(4);
  made.Wait({2, 3}, Duration::Seconds(60));
  for (const uint32_t rank : {2U, 3U}) {
    made.Add(rank, Entered("t 2-3", 9));
    made[rank].collectives.back().age = Duration::Seconds(61);
  }
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kEverybody, verdict.hang);
  EXPECT_TRUE(verdict.culprits.empty());
}

TEST(Judge, RanksThatWaitForEachOtherCalledInAnotherOrder) {
  SceneMaker made(2);
  made.Add(0, Entered("1 0-1", 1));
  made.Add(1, Entered("2 0-1", 1));
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangClass::kOrder, verdict.hang);
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(RankList({0, 1}), verdict.culprits);
  EXPECT_EQ(
      "Ranks 0 and 1 wait for each other: rank 0 in all_reduce 1 of group 1 (ranks 0-1, created "
      "first) at train.py:44, rank 1 in all_reduce 1 of group 2 (ranks 0-1, created second) at "
      "train.py:44. Every rank must call collectives in the same order.",
      verdict.sentence);
}

// Nobody can know which of two ranks is wrong, so the failure names both.
TEST(Judge, OfTwoRanksInOtherOrdersBothAreNamed) {
  SceneMaker made(2);
  made.Add(0, Entered("1 0-1", 1));
  made.Add(1, Entered("2 0-1", 1));
  const std::string headline = Judge(made.facts()).headline;
  EXPECT_TRUE(headline.starts_with("and rank 1 called collectives in opposite orders: "))
      << headline;
}

TEST(Judge, NothingIsSaidOfAQuietWorldForTenMinutes) {
  SceneMaker made(4);
  for (uint32_t rank = 0; rank < 4; ++rank) made[rank].quiet_for = Duration::Seconds(599);
  EXPECT_EQ(HangAct::kNone, Judge(made.facts()).act);
  EXPECT_EQ(Duration::Seconds(1), Judge(made.facts()).look_again);
  made[0].quiet_for = Duration::Seconds(600);
  EXPECT_EQ(HangAct::kTell, Judge(made.facts()).act);
}

TEST(Judge, NoFactsGiveNoVerdict) {
  EXPECT_EQ(HangAct::kNone, Judge({}).act);
  EXPECT_FALSE(Judge({}).look_again.is_infinite());
}

TEST(Judge, WithoutAStackTheVerdictStands) {
  SceneMaker made(4);
  made.Wait({2});
  made[2].state = 'T';
  made[2].stack.clear();
  made[2].no_stack = "py-spy is not installed";
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(HangAct::kRestart, verdict.act);
  EXPECT_EQ(0u, verdict.sentence.find("Rank 2 on node0 was stopped, forward."));
  EXPECT_NE(std::string::npos, verdict.lines[0].find("no stacks: py-spy is not installed"));
}

}  // namespace
}  // namespace paceline::diagnose
