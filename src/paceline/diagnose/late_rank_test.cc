// Ranks that take their time: in which phase they are named, and when they are restarted.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/diagnose/judge.h"
#include "paceline/diagnose/testing/scenes.h"

namespace paceline::diagnose {
namespace {

using testing::SceneMaker;

// Rank 0 is absent in that phase. The others have waited for that time.
Verdict JudgeLate(RankPhase phase, Duration waited, Duration longest = Duration(),
                  Duration idle = Duration(), Duration act_after = Duration()) {
  SceneMaker made(2);
  made.Wait({0}, waited);
  made[0].phase = phase;
  made[0].phase_longest = longest;
  made[0].idle_for = idle;
  Facts facts = made.facts();
  facts.act_after = act_after;
  return Judge(facts);
}

constexpr RankPhase kPatientPhases[] = {
    RankPhase::kStart,      RankPhase::kData,    RankPhase::kCheckpoint, RankPhase::kCompile,
    RankPhase::kEvaluation, RankPhase::kUnknown, RankPhase::kEnd};

TEST(LateRank, IsNamedInEveryPhaseAfterTenSecondsOrFiveSlowSteps) {
  for (const RankPhase phase : kPatientPhases) {
    EXPECT_EQ(HangAct::kNone, JudgeLate(phase, Duration::Milliseconds(9'900)).act);
    const Verdict verdict = JudgeLate(phase, Duration::Seconds(10));
    EXPECT_EQ(HangAct::kTell, verdict.act) << PhaseName(phase);
    EXPECT_EQ(std::vector<Rank>{Rank(0)}, verdict.culprits) << PhaseName(phase);
    EXPECT_EQ(0u, verdict.sentence.find("Rank 0 on node0 does not go on in train.py:41"))
        << verdict.sentence;
  }
  SceneMaker slow(2);
  for (const int64_t seconds : {99, 100}) {
    slow = SceneMaker(2);
    slow.Wait({0}, Duration::Seconds(seconds));
    slow[0].phase = RankPhase::kUnknown;
    slow[0].step_p99 = Duration::Seconds(20);
    EXPECT_EQ(seconds < 100 ? HangAct::kNone : HangAct::kTell, Judge(slow.facts()).act);
  }
}

// So that an ordinary save or evaluation is not reported each time.
TEST(LateRank, APhaseThatTookLongBeforeIsNamedLaterButWithinAMinute) {
  for (const RankPhase phase : {RankPhase::kCheckpoint, RankPhase::kUnknown}) {
    EXPECT_EQ(HangAct::kNone, JudgeLate(phase, Duration::Seconds(44), Duration::Seconds(15)).act);
    EXPECT_EQ(HangAct::kTell, JudgeLate(phase, Duration::Seconds(45), Duration::Seconds(15)).act);
    EXPECT_EQ(HangAct::kNone, JudgeLate(phase, Duration::Seconds(59), Duration::Seconds(600)).act);
    EXPECT_EQ(HangAct::kTell, JudgeLate(phase, Duration::Seconds(60), Duration::Seconds(600)).act);
  }
}

TEST(LateRank, TheSentenceSaysWhatItMayBeDoing) {
  const auto says = [](RankPhase phase, const std::string& text) {
    const std::string sentence = JudgeLate(phase, Duration::Seconds(20)).sentence;
    return sentence.find(text) != std::string::npos;
  };
  EXPECT_TRUE(says(RankPhase::kUnknown, "train.py:41; it may be evaluating or saving. Rank 1"));
  EXPECT_TRUE(says(RankPhase::kStart, ", start; it may be importing or loading. Rank 1"));
  EXPECT_FALSE(says(RankPhase::kCheckpoint, "it may be"));
  EXPECT_FALSE(says(RankPhase::kForward, "it may be"));
}

TEST(LateRank, ThePhaseSetsWhenItIsRestarted) {
  const Duration hours = Duration::Seconds(50'000);
  const Duration second = Duration::Seconds(1);
  for (const RankPhase phase : kPatientPhases) {
    const bool is_unknown = phase == RankPhase::kUnknown;  // see the next test
    EXPECT_EQ(is_unknown ? HangAct::kRestart : HangAct::kTell,
              JudgeLate(phase, hours, Duration(), hours).act)
        << PhaseName(phase);
  }
  for (const RankPhase phase : {RankPhase::kData, RankPhase::kCheckpoint}) {
    EXPECT_EQ(HangAct::kTell, JudgeLate(phase, Duration::Seconds(599), second).act);
    EXPECT_EQ(HangAct::kRestart, JudgeLate(phase, Duration::Seconds(600), second).act);
  }
}

TEST(LateRank, InAnUnknownPhaseOnlyARankThatDoesNothingIsRestarted) {
  const auto act = [](int64_t waited, int64_t longest, int64_t idle) {
    return JudgeLate(RankPhase::kUnknown, Duration::Seconds(waited), Duration::Seconds(longest),
                     Duration::Seconds(idle))
        .act;
  };
  EXPECT_EQ(HangAct::kTell, act(700, 0, 599));
  EXPECT_EQ(HangAct::kTell, act(599, 0, 700));
  EXPECT_EQ(HangAct::kRestart, act(603, 0, 600));
  EXPECT_EQ(HangAct::kTell, act(3000, 300, 2999));
  EXPECT_EQ(HangAct::kRestart, act(3003, 300, 3000));
  const Verdict verdict =
      JudgeLate(RankPhase::kUnknown, Duration::Seconds(603), Duration(), Duration::Seconds(600));
  EXPECT_EQ(
      "Rank 0 on node0 does not go on in train.py:41; for 600.0 s its processes have neither "
      "computed nor moved bytes. Rank 1 waited 603.0 s for it in all_reduce 188 of the world "
      "(train.py:44).",
      verdict.sentence);
  SceneMaker computes(2);
  computes.Wait({0}, Duration::Seconds(50'000));
  computes[0].phase = RankPhase::kUnknown;
  computes[0].state = 'R';
  EXPECT_EQ(HangAct::kTell, Judge(computes.facts()).act);
}

TEST(LateRank, ASettingDoesNotShortenTheTimeOfAnUnknownPhase) {
  const Duration soon = Duration::Seconds(10);
  const auto act = [soon](int64_t seconds) {
    const Duration waited = Duration::Seconds(seconds);
    return JudgeLate(RankPhase::kUnknown, waited, Duration(), waited, soon).act;
  };
  EXPECT_EQ(HangAct::kTell, act(599));
  EXPECT_EQ(HangAct::kRestart, act(600));
}

// With a torch that has no hooks for DDP's collectives, which block the backward.
TEST(LateRank, IsNamedWhereAllOthersSleepInBackwardWithoutARecord) {
  const auto make = [](Duration slept) {
    SceneMaker made(4);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      made[rank].phase = rank == 1 ? RankPhase::kUnknown : RankPhase::kBackward;
      made[rank].quiet_for = slept;
    }
    return made;
  };
  EXPECT_EQ(HangAct::kNone, Judge(make(Duration::Seconds(9)).facts()).act);
  const Verdict verdict = Judge(make(Duration::Seconds(10)).facts());
  EXPECT_EQ(HangAct::kTell, verdict.act);
  EXPECT_EQ(
      "Rank 1 on node0 does not go on in train.py:41; it may be evaluating or saving. Ranks 0, 2 "
      "and 3 have slept in backward for 10.0 s.",
      verdict.sentence);
  SceneMaker late = make(Duration::Seconds(50'000));
  late[1].idle_for = Duration::Seconds(50'000);
  EXPECT_EQ(HangAct::kTell, Judge(late.facts()).act);
  late[2].phase = RankPhase::kForward;
  EXPECT_TRUE(Judge(late.facts()).culprits.empty());
}

}  // namespace
}  // namespace paceline::diagnose
