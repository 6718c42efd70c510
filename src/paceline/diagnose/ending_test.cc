// Ranks whose script has raised an exception, and whose process lives on.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/diagnose/judge.h"
#include "paceline/diagnose/testing/scenes.h"

namespace paceline::diagnose {
namespace {

using testing::SceneMaker;

SceneMaker MakeRaised(int64_t seconds, int64_t idle) {
  SceneMaker made(2);
  made.Wait({1}, Duration::Seconds(seconds));
  made[1].phase = RankPhase::kEnd;
  made[1].raised = "ValueError: bad batch (train.py:31)";
  made[1].raised_as = "ValueError@train.py:31";
  made[1].raised_for = Duration::Seconds(seconds);
  made[1].idle_for = Duration::Seconds(idle);
  made[1].waits_in = "sleep";
  return made;
}

TEST(Ending, ARankThatRaisedIsNamedAfterTenSeconds) {
  EXPECT_EQ(HangAct::kNone, Judge(MakeRaised(9, 9).facts()).act);
  EXPECT_EQ(Duration::Seconds(1), Judge(MakeRaised(9, 9).facts()).look_again);
  const Verdict verdict = Judge(MakeRaised(10, 7).facts());
  EXPECT_EQ(HangClass::kEnding, verdict.hang);
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_EQ(std::vector<Rank>{Rank(1)}, verdict.culprits);
  EXPECT_EQ(
      "Rank 1 on node0 raised ValueError and does not end: bad batch (train.py:31). After 10.0 s "
      "its process waits in sleep.",
      verdict.sentence);
  EXPECT_EQ("raised ValueError: bad batch (train.py:31) and did not end", verdict.headline);
  EXPECT_EQ("ValueError@train.py:31", verdict.fingerprint);
}

TEST(Ending, AnIdleProcessIsEndedAfterThirtySecondsAndAnyAfterTwoMinutes) {
  EXPECT_EQ(HangAct::kTell, Judge(MakeRaised(29, 26).facts()).act);
  EXPECT_EQ(Duration::Seconds(1), Judge(MakeRaised(29, 26).facts()).look_again);
  EXPECT_EQ(HangAct::kRestart, Judge(MakeRaised(30, 27).facts()).act);
  // It uploads what a logger has kept.
  EXPECT_EQ(HangAct::kTell, Judge(MakeRaised(60, 0).facts()).act);
  EXPECT_EQ(Duration::Seconds(15), Judge(MakeRaised(60, 0).facts()).look_again);
  EXPECT_EQ(HangAct::kRestart, Judge(MakeRaised(75, 15).facts()).act);
  EXPECT_EQ(HangAct::kTell, Judge(MakeRaised(119, 0).facts()).act);
  EXPECT_EQ(HangAct::kRestart, Judge(MakeRaised(120, 0).facts()).act);
}

TEST(Ending, TheFirstOfSeveralIsTheCause) {
  SceneMaker made = MakeRaised(30, 30);
  made[0].raised = std::string(kUnknownException);
  made[0].raised_for = Duration::Seconds(31);
  made[0].idle_for = Duration::Seconds(30);
  const Verdict verdict = Judge(made.facts());
  EXPECT_EQ(std::vector<Rank>{Rank(0)}, verdict.culprits);
  EXPECT_EQ("Rank 0 on node0 raised an exception and does not end. Its process lives 31.0 s later.",
            verdict.sentence);
}

}  // namespace
}  // namespace paceline::diagnose
