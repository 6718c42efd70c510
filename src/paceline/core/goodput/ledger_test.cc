#include "paceline/core/goodput/ledger.h"

#include <utility>

#include "gtest/gtest.h"

namespace paceline::core {
namespace {

Instant AtSecond(int64_t seconds) { return Instant() + Duration::Seconds(seconds); }

// Two nodes of two slots each, and a spare when a test asks for it. Ten slot-seconds of a class
// mean that the four seated slots were in it for 2.5 s.
class GoodputLedgerTest : public testing::Test {
 protected:
  GoodputLedgerTest() {
    JobCreated created;
    created.spec.nodes_max = 2;
    created.spec.nproc_per_node = 2;
    Fold(0, created);
    Join(1, 1);
    Join(2, 2);
  }

  void Fold(int64_t second, Fact fact, std::vector<RecordSeq> causes = {}) {
    ledger_.Fold({RecordSeq(++seq_), AtSecond(100 + second), std::move(causes), std::move(fact)});
  }
  void Join(int64_t second, uint32_t node) {
    Fold(second, NodeJoined{.node = NodeId(node), .slots = 2});
  }
  void Form(int64_t second, std::vector<uint32_t> nodes) {
    WorldFormed formed;
    for (const uint32_t node : nodes) formed.world.seats.push_back({.node = NodeId(node)});
    Fold(second, std::move(formed));
  }
  // Trains from second 10 on, from step 0.
  void Train() {
    Form(4, {1, 2});
    Fold(10, WorldRunning{.step = 1});
  }
  GoodputReport Report(int64_t second) const { return ledger_.At(AtSecond(100 + second)); }

  GoodputLedger ledger_;
  uint64_t seq_ = 0;
};

TEST_F(GoodputLedgerTest, DividesAnUndisturbedJob) {
  Train();
  Fold(30, StopDecided{});
  Fold(31, JobFinished{.step = 40});
  const GoodputReport report = Report(1000);  // an ended job's time stands still
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kWaiting), 2 * 1 + 4 * 2);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kFirstStart), 4 * 6);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kStopping), 4 * 1);
  EXPECT_DOUBLE_EQ(report.runtime, 20.0 / 27);
  EXPECT_DOUBLE_EQ(report.scheduling, 1);
  EXPECT_EQ(report.steps_executed, 40);
  EXPECT_EQ(report.steps_redone, 0);
  EXPECT_TRUE(report.incidents.empty());
}

TEST_F(GoodputLedgerTest, AnIncidentCostsWhatTheNextWorldMakesUpFor) {
  Train();
  Fold(20, RankFailed{});
  Fold(20, WorldEnded{.step = 20}, {RecordSeq(6)});
  Form(21, {1, 2});
  Fold(23, WorldRunning{.step = 16, .began_at = 15});
  Fold(28, ProgressMade{.step = 21});
  const GoodputReport report = Report(38);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDecision), 4 * 1);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRestart), 4 * 2);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 5);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
  EXPECT_DOUBLE_EQ(report.runtime, 20.0 / 34);
  EXPECT_EQ(report.steps_redone, 5);
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_EQ(report.incidents[0].cause, RecordSeq(6));
  EXPECT_DOUBLE_EQ(report.incidents[0].slot_seconds, 4 * 8);
  EXPECT_TRUE(report.incidents[0].is_over);
}

// A new highest step may be told while the last ranks still arrive, before the world counts as
// running, and it is told once.
TEST_F(GoodputLedgerTest, AWorldThatIsPastTheHighestStepRepeatsNothing) {
  Train();
  Fold(20, WorldEnded{.step = 20});
  Form(21, {1, 2});
  Fold(23, ProgressMade{.step = 21});
  Fold(24, WorldRunning{.step = 20, .began_at = 19});
  EXPECT_DOUBLE_EQ(Report(34).Of(TimeClass::kRedone), 0);
  EXPECT_DOUBLE_EQ(Report(34).Of(TimeClass::kProductive), 4 * 20);
  Fold(34, WorldEnded{.step = 30});
  Form(35, {1, 2});
  Fold(36, WorldRunning{.step = 31, .began_at = 30});
  EXPECT_DOUBLE_EQ(Report(40).Of(TimeClass::kRedone), 0);
}

TEST_F(GoodputLedgerTest, AScriptThatBeginsAnewRepeatsAllItsSteps) {
  Train();
  Fold(20, WorldEnded{.step = 20});
  Form(20, {1, 2});
  Fold(20, WorldRunning{.step = 1});
  const GoodputReport report = Report(25);
  EXPECT_EQ(report.steps_redone, 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 5);
}

TEST_F(GoodputLedgerTest, ASilentNodeCostsTheTimeOfItsSilence) {
  Train();
  Fold(30, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(6)});
  Fold(30, WorldEnded{.step = 20}, {RecordSeq(6)});
  Fold(30, WaitBegan{});
  const GoodputReport waiting = Report(40);
  EXPECT_DOUBLE_EQ(waiting.Of(TimeClass::kProductive), 4 * 14);
  EXPECT_DOUBLE_EQ(waiting.Of(TimeClass::kDetection), 4 * 6);
  EXPECT_DOUBLE_EQ(waiting.Of(TimeClass::kWaiting), 2 * 1 + 4 * 2 + 2 * 10);
  ASSERT_EQ(waiting.incidents.size(), 1u);
  EXPECT_FALSE(waiting.incidents[0].is_over);
  EXPECT_DOUBLE_EQ(waiting.incidents[0].slot_seconds, 4 * 6 + 2 * 10);
  EXPECT_DOUBLE_EQ(waiting.scheduling, (4 * 26 + 2 * 10) / (4 * 36.0));
}

// Silence that began before this world trained is not taken from the world before it.
TEST_F(GoodputLedgerTest, SilenceTakesNoMoreThanItsWorldTrained) {
  Train();
  Fold(20, WorldEnded{.step = 20});
  Form(21, {1, 2});
  Fold(22, WorldRunning{.step = 21, .began_at = 20});
  Fold(22, ProgressMade{.step = 21});
  Fold(24, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(9)});
  Fold(24, WorldEnded{.step = 22});
  const GoodputReport report = Report(24);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 10);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDetection), 4 * 2);
}

// A script with files of its own, whose ranks tell no step of the training: only what it made
// since its last file is lost, however many steps the next world takes to count as far.
TEST_F(GoodputLedgerTest, AScriptWithFilesLosesTheWorkSinceItsLastFile) {
  Form(4, {1, 2});
  Fold(10, WorldRunning{});
  Fold(50, WorldEnded{.step_count = 400, .lost_steps = 2, .lost_work = Duration::Seconds(1)});
  Form(51, {1, 2});
  Fold(53, WorldRunning{});
  const GoodputReport report = Report(63);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 1);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * (39 + 10));
  EXPECT_EQ(report.steps_executed, 400);
  EXPECT_EQ(report.steps_redone, 2);
}

// Both worlds repeat the same ten steps; the second one reached five of them.
TEST_F(GoodputLedgerTest, AWorldThatFailsWhileItRepeatsLosesOnlyItsOwnSteps) {
  Train();
  Fold(20, WorldEnded{.step = 20, .step_count = 20, .reached = 20});
  Form(20, {1, 2});
  Fold(20, WorldRunning{.step = 11, .began_at = 10});
  Fold(25, WorldEnded{.step = 20, .step_count = 5, .reached = 15});
  Form(25, {1, 2});
  Fold(25, WorldRunning{.step = 11, .began_at = 10});
  Fold(35, ProgressMade{.step = 21, .step_count = 11});
  Fold(45, JobFinished{.step = 30, .step_count = 20, .reached = 30});
  const GoodputReport report = Report(45);
  EXPECT_EQ(report.steps_executed, 20 + 5 + 20);
  EXPECT_EQ(report.steps_redone, 10 + 5);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * (5 + 10));
}

// The script tells each tenth step, so none was told when its worlds began to run.
TEST_F(GoodputLedgerTest, StepsThatAreToldLaterShowWhatIsRepeated) {
  Form(4, {1, 2});
  Fold(10, WorldRunning{});
  Fold(30, WorldEnded{.step = 40, .step_count = 40, .reached = 40});
  Form(30, {1, 2});
  Fold(30, WorldRunning{});
  Fold(35, ProgressMade{.step = 50, .step_count = 20});
  const GoodputReport report = Report(45);
  EXPECT_EQ(report.steps_executed, 40);
  EXPECT_EQ(report.steps_redone, 10);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 5);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * (20 + 10));
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_DOUBLE_EQ(report.incidents[0].slot_seconds, 4 * 5);
}

// It loads its model and not its optimizer, whose steps begin at 0 again.
TEST_F(GoodputLedgerTest, AnOptimizerThatCountsAnewDoesNotMeanLostWork) {
  Train();
  Fold(30, WorldEnded{.step = 40,
                      .step_count = 40,
                      .lost_steps = 4,
                      .lost_work = Duration::Seconds(2),
                      .reached = 40});
  Form(31, {1, 2});
  Fold(32, WorldRunning{.step = 1, .is_own_count = true});
  const GoodputReport report = Report(42);
  EXPECT_EQ(report.steps_redone, 4);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 2);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * (18 + 10));
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_TRUE(report.incidents[0].is_over);
}

HangJudged Told(Duration quiet_for) {
  return {.hang = "blocked", .quiet_for = quiet_for, .end_follows = true};
}

TEST_F(GoodputLedgerTest, ANamedHangIsNotProductiveUntilItEnds) {
  Train();
  Fold(30, Told(Duration::Seconds(10)));
  EXPECT_DOUBLE_EQ(Report(35).Of(TimeClass::kHang), 4 * 15);
  EXPECT_DOUBLE_EQ(Report(35).runtime, 10.0 / 31);
  Fold(40, HangEnded{});
  const GoodputReport report = Report(50);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kHang), 4 * 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
}

TEST_F(GoodputLedgerTest, AHangThatEndsByItselfIsAnIncidentWithItsTimeAndItsRecord) {
  Train();
  Fold(30, Told(Duration::Seconds(10)));
  const RecordSeq told(seq_);
  const GoodputReport lasting = Report(35);
  ASSERT_EQ(lasting.incidents.size(), 1u);
  EXPECT_EQ(lasting.incidents[0].cause, told);
  EXPECT_EQ(lasting.incidents[0].world_ended, RecordSeq());
  EXPECT_DOUBLE_EQ(lasting.incidents[0].slot_seconds, 4 * 15);
  EXPECT_FALSE(lasting.incidents[0].is_over);
  Fold(32, Told(Duration::Seconds(12)));  // the same hang, judged again
  Fold(40, HangEnded{});
  Fold(60, RankFailed{});
  Fold(60, WorldEnded{.step_count = 60});
  const GoodputReport report = Report(70);
  ASSERT_EQ(report.incidents.size(), 2u);
  EXPECT_EQ(report.incidents[0].cause, told);
  EXPECT_DOUBLE_EQ(report.incidents[0].slot_seconds, 4 * 20);
  EXPECT_TRUE(report.incidents[0].is_over);
  EXPECT_DOUBLE_EQ(report.incidents[1].slot_seconds, 4 * 10);  // the later failure's own
}

TEST_F(GoodputLedgerTest, AStopEndsAHang) {
  Train();
  Fold(30, Told(Duration::Seconds(10)));
  Fold(36, StopDecided{});
  const GoodputReport report = Report(50);
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_DOUBLE_EQ(report.incidents[0].slot_seconds, 4 * 16);
  EXPECT_TRUE(report.incidents[0].is_over);
}

TEST_F(GoodputLedgerTest, AHangThatEndsItsWorldIsAPartOfTheIncident) {
  Form(4, {1, 2});
  Fold(10, WorldRunning{});
  Fold(30, Told(Duration::Seconds(10)));
  Fold(40, RankFailed{});
  Fold(40, WorldEnded{.step_count = 40,
                      .lost_steps = 10,
                      .lost_work = Duration::Seconds(25),
                      .still_for = Duration::Seconds(20)});
  const GoodputReport report = Report(40);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kHang), 4 * 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 5);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDetection), 0);
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_DOUBLE_EQ(report.incidents[0].slot_seconds, 4 * 25);
}

// A journal of an older release does not tell when a hang ended.
TEST_F(GoodputLedgerTest, AHangWhoseEndIsNotRecordedChangesNothing) {
  Train();
  Fold(30, HangJudged{.hang = "blocked", .quiet_for = Duration::Seconds(10)});
  EXPECT_DOUBLE_EQ(Report(50).Of(TimeClass::kProductive), 4 * 40);
}

// The next master hears of the death and of the last steps in the same moment.
TEST_F(GoodputLedgerTest, ARankThatDiedWithoutAMasterIsDeadFromItsDeathOn) {
  Train();
  Fold(60, MasterTookOver{.incarnation = 2, .history = History::kOwn});
  Fold(61, RankFailed{.died_for = Duration::Seconds(31)});
  Fold(61, WorldEnded{.step = 40, .step_count = 40, .still_for = Duration::Seconds(1)});
  const GoodputReport report = Report(61);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDetection), 4 * 31);
}

// The peers of a dead rank stand still until its failure is known.
TEST_F(GoodputLedgerTest, AFailedWorldMadeNoStepsSinceItsLastOne) {
  Train();
  Fold(30, RankFailed{});
  Fold(30, WorldEnded{.step = 20, .still_for = Duration::Seconds(3)}, {RecordSeq(6)});
  const GoodputReport report = Report(30);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 17);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDetection), 4 * 3);
  ASSERT_EQ(report.incidents.size(), 1u);
  EXPECT_DOUBLE_EQ(report.incidents[0].slot_seconds, 4 * 3);
}

TEST_F(GoodputLedgerTest, AWorldThatFailsAmongRepeatedStepsWasStill) {
  Train();
  Fold(30, WorldEnded{.step = 20});
  Form(31, {1, 2});
  Fold(32, WorldRunning{.step = 11, .began_at = 10});
  // It was silent before this world trained: that is no time of this world.
  Fold(36, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(9)});
  Fold(36, WorldEnded{.step = 20});
  const GoodputReport report = Report(36);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 0);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDetection), 4 * 4);
}

// A node that is cut off from the master alone may train on with the others.
TEST_F(GoodputLedgerTest, StepsDuringASilenceCount) {
  Train();
  Fold(30, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(9)});
  Fold(30, WorldEnded{.step = 20, .step_count = 20, .still_for = Duration::Seconds(1)});
  EXPECT_DOUBLE_EQ(Report(30).Of(TimeClass::kDetection), 4 * 1);
}

TEST_F(GoodputLedgerTest, AWorldThatEndsToGrowWasNotStill) {
  Train();
  Fold(30, WorldEnded{.step = 20, .still_for = Duration::Seconds(3)});
  EXPECT_DOUBLE_EQ(Report(30).Of(TimeClass::kDetection), 0);
}

// The loss of the node, which comes before, must not hide the work that is lost with it.
TEST_F(GoodputLedgerTest, ALostNodeCostsItsSilenceAndTheWorkBeforeIt) {
  Form(4, {1, 2});
  Fold(10, WorldRunning{});
  Fold(50, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(6)});
  Fold(50, WorldEnded{.step_count = 400, .lost_steps = 90, .lost_work = Duration::Seconds(15)});
  const GoodputReport report = Report(50);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kDetection), 4 * 6);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRedone), 4 * 9);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 25);
}

TEST_F(GoodputLedgerTest, ASpareCostsTheJobNothingButItself) {
  Train();
  Join(12, 3);
  const GoodputReport report = Report(22);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kSpare), 2 * 10);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 12);
  EXPECT_DOUBLE_EQ(report.runtime, 12.0 / 18);
}

TEST_F(GoodputLedgerTest, WhatACopyOfTheJournalLacksIsUnknown) {
  Train();
  Fold(20, MasterTookOver{.incarnation = 2, .history = History::kOwn});
  Fold(30, MasterTookOver{.incarnation = 1, .term = 2, .history = History::kCopy});
  const GoodputReport report = Report(30);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 10);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kUnknown), 4 * 10);
}

TEST_F(GoodputLedgerTest, AWorldThatTrainsOnUnderALaterMasterIsProductive) {
  Train();
  Fold(20, MasterTookOver{.incarnation = 1, .term = 2, .history = History::kCopy});
  const GoodputReport report = Report(50);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kUnknown), 4 * 10);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 30);
  Fold(50, WorldEnded{.step = 40, .step_count = 40});
  EXPECT_DOUBLE_EQ(Report(50).Of(TimeClass::kProductive), 4 * 30);
}

TEST_F(GoodputLedgerTest, ASizeThatAUserChoseLacksNoSeats) {
  Form(4, {1, 2});
  Fold(14, SizeChosen{.nodes = 1});
  Form(14, {1});
  EXPECT_DOUBLE_EQ(Report(34).scheduling, 1);
  Fold(34, SizeChosen{.nodes = 2});
  EXPECT_DOUBLE_EQ(Report(54).scheduling, (40.0 + 40 + 40) / (40 + 40 + 80));
}

TEST_F(GoodputLedgerTest, TheTimeBetweenAnEndAndItsResumptionDoesNotCount) {
  Train();
  Fold(20, JobFinished{.step = 20});
  Fold(900, JobResumed{});
  Join(900, 1);
  Join(900, 2);
  Form(902, {1, 2});
  Fold(904, WorldRunning{.step = 21, .began_at = 20});
  Fold(904, ProgressMade{.step = 21});
  const GoodputReport report = Report(914);
  EXPECT_DOUBLE_EQ(report.allocated(), 2 * 1 + 4 * 18 + 4 * 14);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
}

// Such a world is resumed and stopped before its first step. Its end names the job's last step.
TEST_F(GoodputLedgerTest, AWorldWithoutAStepAddsNone) {
  Train();
  Fold(20, JobFinished{.step = 20, .step_count = 20, .reached = 20});
  Fold(30, JobResumed{});
  Form(31, {1, 2});
  Fold(40, WorldRunning{.has_no_step = true});
  Fold(50, JobFinished{.step = 20});
  EXPECT_EQ(Report(50).steps_executed, 20);
  Fold(60, JobResumed{});
  Form(61, {1, 2});
  Fold(70, WorldRunning{.has_no_step = true});
  Fold(80, WorldEnded{.step = 20});
  EXPECT_EQ(Report(80).steps_executed, 20);
  Form(81, {1, 2});
  Fold(90, WorldRunning{.step = 16, .began_at = 15});
  Fold(95, ProgressMade{.step = 21, .step_count = 6});
  Fold(100, JobFinished{.step = 30, .step_count = 15, .reached = 30});
  EXPECT_EQ(Report(100).steps_executed, 20 + 15);
  EXPECT_EQ(Report(100).steps_redone, 5);
}

TEST_F(GoodputLedgerTest, TheNodesOfAnEndDoNotJoinAnewForItsResumption) {
  Train();
  Fold(20, JobFinished{.step = 20});
  Fold(900, JobResumed{});
  Form(902, {1, 2});
  Fold(904, WorldRunning{.step = 21, .began_at = 20});
  Fold(904, ProgressMade{.step = 21});
  const GoodputReport report = Report(914);
  EXPECT_DOUBLE_EQ(report.allocated(), 2 * 1 + 4 * 18 + 4 * 14);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 20);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kRestart), 4 * 2);
}

// TimeClassTexts() has one entry for each TimeClass, in the order of the enum.
TEST(TimeClassTexts, NameEveryClassOnce) {
  for (size_t i = 0; i < kTimeClasses; ++i) {
    EXPECT_EQ(static_cast<size_t>(TimeClassTexts()[i].time_class), i);
    EXPECT_FALSE(TimeClassTexts()[i].name.empty());
  }
}

}  // namespace
}  // namespace paceline::core
