// The ledger with ranks that told the time of their phases.

#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/goodput/ledger.h"

namespace paceline::core {
namespace {

// Two nodes of two slots each. The ranks' times are per rank, and equal for all four.
class LedgerOfPhasesTest : public testing::Test {
 protected:
  LedgerOfPhasesTest() {
    JobCreated created;
    created.spec.nodes_max = 2;
    created.spec.nproc_per_node = 2;
    Fold(0, created);
    for (const uint32_t node : {1U, 2U}) Fold(1, NodeJoined{.node = NodeId(node), .slots = 2});
  }
  void Fold(int64_t second, Fact fact) {
    const Instant at = Instant() + Duration::Seconds(100 + second);
    ledger_.Fold({RecordSeq(++seq_), at, {}, std::move(fact)});
  }
  void Form(int64_t second) {
    WorldFormed formed;
    formed.world.generation = Generation(++generation_);
    for (const uint32_t node : {1U, 2U}) formed.world.seats.push_back({.node = NodeId(node)});
    spent_.clear();
    Fold(second, std::move(formed));
  }
  // So many seconds more of each part since the last call, of each rank.
  void Tell(int64_t second, const std::map<TimePart, double>& more) {
    TimeAccounted fact{.generation = Generation(generation_), .ranks = 4};
    for (const auto& [part, seconds] : more) spent_[part] += seconds;
    for (const auto& [part, seconds] : spent_) {
      fact.spent[static_cast<size_t>(part)] = static_cast<int64_t>(seconds * 4 * 1000);
    }
    Fold(second, fact);
  }
  // Starts at second 2, of which one restores and two compile, and trains from second 10 on.
  void Train() {
    Form(2);
    Tell(10, {{TimePart::kStart, 5}, {TimePart::kRestore, 1}, {TimePart::kCompile, 2}});
    Fold(10, WorldRunning{.step = 1});
  }
  GoodputReport Report(int64_t second) const {
    return ledger_.At(Instant() + Duration::Seconds(100 + second));
  }
  // All classes together are the time of all slots: nothing is counted twice or lost.
  void ExpectWhole(const GoodputReport& report, double slot_seconds) {
    EXPECT_NEAR(report.allocated(), slot_seconds, 1e-6);
    for (const TimeClassText& text : TimeClassTexts()) {
      EXPECT_GE(report.Of(text.time_class), -1e-9) << text.name;
    }
  }

  GoodputLedger ledger_;
  uint64_t seq_ = 0;
  uint64_t generation_ = 0;
  std::map<TimePart, double> spent_;
};

TEST_F(LedgerOfPhasesTest, DividesStartAndSteps) {
  Train();
  Tell(70, {{TimePart::kWork, 40},
            {TimePart::kData, 5},
            {TimePart::kEvaluation, 10},
            {TimePart::kCheckpoint, 3},
            {TimePart::kStraggler, 2}});
  const GoodputReport report = Report(70);
  EXPECT_NEAR(report.Of(TimeClass::kFirstStart), 4 * 5, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kRestore), 4 * 1, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kCompile), 4 * 2, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 40, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kDataWait), 4 * 5, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kEvaluation), 4 * 10, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kCheckpointStall), 4 * 3, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kStragglerWait), 4 * 2, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kUnknown), 0, 1e-6);
  EXPECT_NEAR(report.runtime, 40.0 / 68, 1e-9);
  EXPECT_NEAR(report.divided, 4 * 60, 1e-6);
  EXPECT_NEAR(report.overcounted, 0, 1e-6);
  ExpectWhole(report, 4 * 69);
}

TEST_F(LedgerOfPhasesTest, AWorldThatToldNothingIsNotDivided) {
  Form(2);
  Fold(10, WorldRunning{.step = 1});
  const GoodputReport report = Report(70);
  EXPECT_DOUBLE_EQ(report.Of(TimeClass::kProductive), 4 * 60);
  EXPECT_DOUBLE_EQ(report.divided, 0);
}

TEST_F(LedgerOfPhasesTest, WhatARankDoesNotTellIsUnknown) {
  Train();
  Tell(70, {{TimePart::kWork, 45}});  // of 60
  EXPECT_NEAR(Report(70).Of(TimeClass::kUnknown), 4 * 15, 1e-6);
  ExpectWhole(Report(70), 4 * 69);
}

TEST_F(LedgerOfPhasesTest, WhatIsToldBeyondTheTimeIsOvercounted) {
  Train();
  Tell(70, {{TimePart::kWork, 62}, {TimePart::kData, 3}});
  Fold(70, StopDecided{});
  const GoodputReport report = Report(70);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 57, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kDataWait), 4 * 3, 1e-6);
  EXPECT_NEAR(report.overcounted, 4 * 5, 1e-6);
  ExpectWhole(report, 4 * 69);
}

TEST_F(LedgerOfPhasesTest, TimeAfterTheTrainingIsNotDivided) {
  Train();
  Tell(40, {{TimePart::kWork, 30}});
  Fold(40, StopDecided{});
  Tell(50, {{TimePart::kCheckpoint, 4}, {TimePart::kEnd, 6}});
  Fold(50, JobFinished{.step = 30});
  const GoodputReport report = Report(50);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 30, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kCheckpointStall), 0, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kStopping), 4 * 10, 1e-6);
}

// The script has returned on some ranks while others still train.
TEST_F(LedgerOfPhasesTest, ARankWhoseScriptHasReturnedStops) {
  Train();
  Tell(40, {{TimePart::kWork, 27}, {TimePart::kEnd, 3}});
  EXPECT_NEAR(Report(40).Of(TimeClass::kStopping), 4 * 3, 1e-6);
}

// Six seconds of the last minute are lost: of each part its share.
TEST_F(LedgerOfPhasesTest, LostStepsAreOfAllPartsAlike) {
  Train();
  Tell(70, {{TimePart::kWork, 60}});
  Tell(130, {{TimePart::kWork, 30}, {TimePart::kEvaluation, 30}});
  Fold(130, RankFailed{});
  Fold(130, WorldEnded{.lost_steps = 6, .lost_work = Duration::Seconds(6)});
  const GoodputReport report = Report(130);
  EXPECT_NEAR(report.Of(TimeClass::kRedone), 4 * 6, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kEvaluation), 4 * 27, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * (60 + 27), 1e-6);
  ExpectWhole(report, 4 * 129);
}

// While nothing was heard of a node, its ranks told no times, so theirs are unknown, and the ranks
// of the other node told that they worked. Unknown and work become detection first, and the
// evaluation of that minute only if they are too little.
TEST_F(LedgerOfPhasesTest, DetectionTakesWhatNobodyToldFirst) {
  Train();
  Tell(70, {{TimePart::kWork, 30}, {TimePart::kEvaluation, 27}});
  Fold(70, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(6)});
  Fold(70, WorldEnded{.step = 20});
  const GoodputReport report = Report(70);
  EXPECT_NEAR(report.Of(TimeClass::kDetection), 4 * 6, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kUnknown), 0, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kEvaluation), 4 * 27, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 27, 1e-6);
  ExpectWhole(report, 4 * 69);
}

// The whole of a former world may move when the next one begins at 0.
TEST_F(LedgerOfPhasesTest, AFormerWorldMovesWithItsParts) {
  Train();
  Tell(70, {{TimePart::kWork, 40}, {TimePart::kData, 20}});
  Fold(90, RankFailed{});
  Tell(90, {{TimePart::kWork, 20}});
  Fold(90, WorldEnded{.step = 40, .lost_steps = 5, .lost_work = Duration::Seconds(50)});
  Form(91);
  Tell(95, {{TimePart::kStart, 4}});
  Fold(95, WorldRunning{.step = 1, .is_own_count = true});
  const GoodputReport report = Report(95);
  EXPECT_NEAR(report.Of(TimeClass::kRedone), 4 * 50, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kDataWait), 4 * 10, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 20, 1e-6);
  ExpectWhole(report, 4 * 94);
}

TEST_F(LedgerOfPhasesTest, RepeatedStepsAreNotDivided) {
  Train();
  Tell(40, {{TimePart::kWork, 30}});
  Fold(40, WorldEnded{.step = 30});
  Form(41);
  Tell(44, {{TimePart::kStart, 3}});
  Fold(44, WorldRunning{.step = 21, .began_at = 20});
  Tell(54, {{TimePart::kWork, 5}, {TimePart::kData, 5}});
  Fold(54, ProgressMade{.step = 31});
  Tell(64, {{TimePart::kWork, 8}, {TimePart::kData, 2}});
  const GoodputReport report = Report(64);
  EXPECT_NEAR(report.Of(TimeClass::kRedone), 4 * 10, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kDataWait), 4 * 2, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * (30 + 8), 1e-6);
  ExpectWhole(report, 4 * 63);
}

TEST_F(LedgerOfPhasesTest, AHangIsNotDivided) {
  Train();
  Tell(40, {{TimePart::kWork, 30}});
  Fold(40, HangJudged{.quiet_for = Duration::Seconds(10), .end_follows = true});
  Tell(60, {{TimePart::kWork, 20}});
  Fold(60, HangEnded{});
  Tell(70, {{TimePart::kData, 10}});
  const GoodputReport report = Report(70);
  EXPECT_NEAR(report.Of(TimeClass::kHang), 4 * 30, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 20, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kDataWait), 4 * 10, 1e-6);
  ExpectWhole(report, 4 * 69);
}

// As when the first heartbeat of a new master comes after the first step: the sums have the start.
TEST_F(LedgerOfPhasesTest, AFirstRecordAmongTheStepsHasTheStartInIt) {
  Form(2);
  Fold(10, WorldRunning{.step = 1});
  Tell(70, {{TimePart::kStart, 5},
            {TimePart::kRestore, 1},
            {TimePart::kCompile, 2},
            {TimePart::kWork, 50},
            {TimePart::kData, 10}});
  const GoodputReport report = Report(70);
  EXPECT_NEAR(report.Of(TimeClass::kFirstStart), 4 * 5, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kRestore), 4 * 1, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kCompile), 4 * 2, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kProductive), 4 * 50, 1e-6);
  EXPECT_NEAR(report.Of(TimeClass::kDataWait), 4 * 10, 1e-6);
  EXPECT_NEAR(report.overcounted, 0, 1e-6);
  ExpectWhole(report, 4 * 69);
}

TEST_F(LedgerOfPhasesTest, ALostPartOfTheJournalIsUnknownAndNotOvercounted) {
  Train();
  Tell(40, {{TimePart::kWork, 30}});
  Fold(50, MasterTookOver{.history = History::kCopy});
  Tell(60, {{TimePart::kWork, 20}});
  Tell(70, {{TimePart::kWork, 5}, {TimePart::kData, 5}});
  const GoodputReport report = Report(70);
  EXPECT_NEAR(report.Of(TimeClass::kUnknown), 4 * 10, 1e-6);
  EXPECT_NEAR(report.overcounted, 0, 1e-6);
  ExpectWhole(report, 4 * 69);
}

}  // namespace
}  // namespace paceline::core
