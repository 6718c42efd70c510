// A job that is measured at its sizes: what the desk advises, when it acts, and when it does not.

#include "paceline/core/scale/scale_desk.h"

#include <gtest/gtest.h>

#include "paceline/brain/throughput.h"

namespace paceline::core {
namespace {

// A job of at most six nodes with a rank each, whose steps take as long as `truth` says.
class ScaleDeskTest : public ::testing::Test {
 protected:
  ScaleDeskTest() {
    JobSpec spec;
    spec.nodes_max = 6;
    spec.scale = ScaleMode::kAuto;
    Fold(JobCreated{spec});
    for (uint32_t id = 1; id <= 6; ++id) {
      Fold(NodeJoined{.node = NodeId(id), .name = "n" + std::to_string(id), .slots = 1});
    }
  }

  void Fold(Fact fact) {
    Apply({.seq = RecordSeq(++seq_), .at = now_, .fact = std::move(fact)}, &state_);
  }

  void Form(uint32_t nodes) {
    WorldFormed formed;
    formed.world.generation = Generation(++generation_);
    for (uint32_t i = 0; i < nodes; ++i) formed.world.seats.push_back({NodeId(i + 1), i, 1});
    Fold(formed);
    Fold(WorldRunning{.generation = Generation(generation_)});
    sums_ = StepSums{};
  }

  // The world trains on for so many windows. What was due at last.
  std::optional<SizeRequested> Train(int windows) {
    std::optional<SizeRequested> due;
    for (int i = 0; i < windows && !due.has_value(); ++i) {
      const double step = truth_.At(static_cast<uint32_t>(state_.world->seats.size()));
      const auto whole = Duration::Microseconds(static_cast<int64_t>(step * 1e6 * 28));
      sums_.steps += 28;
      sums_.whole = sums_.whole + whole;
      now_ = now_ + whole;
      const RankSample sample{.generation = Generation(generation_),
                              .rank = Rank(0),
                              .sums = sums_,
                              .shares_batch = shares_batch_};
      if (desk_.Take(now_, state_, {sample})) due = desk_.Due(state_, facts());
    }
    return due;
  }

  // The job goes to that size; its first sample comes `cost` later.
  void Resize(const SizeRequested& request, Duration cost) {
    Fold(SizeChosen{
        .nodes = request.nodes, .reason = request.why, .is_measured = request.is_measured});
    now_ = now_ + cost;
    Form(request.nodes);
  }

  // Changes its size until nothing is due.
  void Settle() {
    for (int changes = 0; changes < 8; ++changes) {
      const auto due = Train(100);
      if (!due.has_value()) return;
      ASSERT_LE(due->nodes, 6U);
      Resize(*due, Duration::Seconds(3));
    }
  }

  ScaleDesk::Facts facts() const {
    return {.now = now_, .created_at = Instant(), .steps_left = steps_left_};
  }

  brain::StepCurve truth_{.constant = 0.05, .work = 0.5, .exchange = 0.02};  // best with 2
  bool shares_batch_ = true;
  int64_t steps_left_ = 1'000'000;
  Instant now_ = Instant() + Duration::Seconds(100);
  JobState state_;
  StepSums sums_;
  uint64_t seq_ = 0;
  uint64_t generation_ = 0;
  ScaleDesk desk_;
};

TEST_F(ScaleDeskTest, GoesToTheBestSizeInTwoChangesAndStays) {
  Form(6);
  int changes = 0;
  while (const auto due = Train(100)) {
    EXPECT_TRUE(due->is_measured);
    EXPECT_FALSE(due->at_once);
    EXPECT_FALSE(due->why.empty());
    Resize(*due, Duration::Seconds(3));
    ASSERT_LE(++changes, 2);
  }
  EXPECT_EQ(state_.world->seats.size(), 2U);
  const SizeAdvice advice = desk_.Advise(state_, facts());
  ASSERT_TRUE(advice.choice.has_value());
  EXPECT_EQ(advice.choice->best, 2U);
  EXPECT_EQ(advice.hindrance, "");
  for (const SizeSpeed& speed : desk_.Curve()) {
    EXPECT_NEAR(speed.step_seconds, truth_.At(speed.nodes), 1e-4) << speed.nodes;
  }
}

TEST_F(ScaleDeskTest, NothingIsDecidedBeforeFourWindows) {
  Form(6);
  EXPECT_FALSE(Train(5).has_value());  // the mark, the warm-up, and three windows
  EXPECT_EQ(desk_.Advise(state_, facts()).hindrance,
            "the job is measured at its present size: 3 of 4 windows");
  EXPECT_FALSE(desk_.Advise(state_, facts()).choice.has_value());
  EXPECT_TRUE(Train(1).has_value());
}

TEST_F(ScaleDeskTest, OnlyAJobWithAGlobalBatchChangesByItself) {
  shares_batch_ = false;
  Form(6);
  EXPECT_FALSE(Train(20).has_value());
  const SizeAdvice advice = desk_.Advise(state_, facts());
  ASSERT_TRUE(advice.choice.has_value());
  EXPECT_NE(advice.choice->nodes, 6U);  // it would be tried
  EXPECT_NE(advice.hindrance.find("ElasticLoader"), std::string::npos);
}

TEST_F(ScaleDeskTest, AdviceAloneChangesNothing) {
  state_.spec.scale = ScaleMode::kAdvise;
  Form(6);
  EXPECT_FALSE(Train(20).has_value());
  EXPECT_NE(desk_.Advise(state_, facts()).choice->nodes, 6U);
}

TEST_F(ScaleDeskTest, ASizeThatAUserChoseStays) {
  Form(6);
  Resize({.nodes = 5, .at_once = false, .why = "typed", .is_measured = false},
         Duration::Seconds(1));
  EXPECT_FALSE(Train(40).has_value());
  EXPECT_EQ(desk_.Advise(state_, facts()).hindrance, "the size was chosen by hand");
}

TEST_F(ScaleDeskTest, ASlowHostIsNoReasonForAnotherSize) {
  Form(6);
  state_.slow.push_back({.ranks = {Rank(3)}, .node = "n4"});
  EXPECT_FALSE(Train(20).has_value());
  state_.slow.clear();
  EXPECT_TRUE(Train(1).has_value());
}

TEST_F(ScaleDeskTest, AJobThatEndsSoonStays) {
  steps_left_ = 30;
  Form(6);
  EXPECT_FALSE(Train(20).has_value());
}

TEST_F(ScaleDeskTest, AJobOfFixedSizeIsToldWhy) {
  state_.spec.nodes_min = 6;
  Form(6);
  EXPECT_FALSE(Train(20).has_value());
  EXPECT_EQ(desk_.Advise(state_, facts()).hindrance,
            "the job has a fixed number of nodes: give --nnodes MIN:MAX");
}

TEST_F(ScaleDeskTest, AFewDisturbedWindowsDoNotCount) {
  Form(2);
  Train(10);
  const double before = desk_.Curve().front().step_seconds;
  const brain::StepCurve calm = truth_;
  truth_ = {.constant = 2, .work = 0, .exchange = 0};  // something else runs on the hosts
  Train(3);
  truth_ = calm;
  Train(2);
  EXPECT_NEAR(desk_.Curve().front().step_seconds, before, 1e-6);
}

TEST_F(ScaleDeskTest, ASampleOfAnotherWorldOrRankDoesNotCount) {
  Form(6);
  const RankSample other{.generation = Generation(9),
                         .rank = Rank(0),
                         .sums = {.steps = 500, .whole = Duration::Seconds(50)}};
  const RankSample second{.generation = Generation(1),
                          .rank = Rank(1),
                          .sums = {.steps = 500, .whole = Duration::Seconds(50)}};
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(desk_.Take(now_, state_, {other, second}));
  EXPECT_TRUE(desk_.Curve().empty());
}

// ---- earlier runs of the same script

// A run that had those sizes, and measured what is true.
JobHistory RunWith(const std::vector<uint32_t>& sizes, const brain::StepCurve& truth) {
  JobHistory run{
      .run = "r1", .signature = "s", .name = "train", .device = "d", .shares_batch = true};
  for (const uint32_t nodes : sizes) {
    run.curve.push_back(
        {.nodes = nodes, .step_seconds = truth.At(nodes), .error = 0.0001, .windows = 9});
  }
  return run;
}

TEST_F(ScaleDeskTest, BeginsWithTheBestSizeOfEarlierRuns) {
  desk_.Remember({RunWith({1, 2, 6}, truth_)});
  const auto first = desk_.First(state_);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(2U, first->nodes);
  EXPECT_TRUE(first->is_measured);
  EXPECT_EQ("earlier runs of this script measured 1, 2 and 6 nodes, and 2 nodes were the best size",
            first->why);
  Fold(SizeChosen{.nodes = 2, .reason = first->why, .is_measured = true});
  Form(2);
  EXPECT_FALSE(Train(100).has_value());  // and stays there
}

TEST_F(ScaleDeskTest, BeginsAsUsualWithoutAUsefulRun) {
  EXPECT_FALSE(desk_.First(state_).has_value());
  desk_.Remember({RunWith({2}, truth_)});
  EXPECT_FALSE(desk_.First(state_).has_value());  // one size is no curve
  JobHistory plain = RunWith({1, 2, 6}, truth_);
  plain.shares_batch = false;
  ScaleDesk other;
  other.Remember({plain});
  EXPECT_FALSE(other.First(state_).has_value());
  ScaleDesk told;
  told.Remember({RunWith({1, 2, 6}, truth_)});
  state_.spec.scale = ScaleMode::kAdvise;
  EXPECT_FALSE(told.First(state_).has_value());
}

TEST_F(ScaleDeskTest, ARunningJobKeepsItsSizeWhenANewMasterRemembers) {
  desk_.Remember({RunWith({1, 2, 6}, truth_)});
  Form(6);
  EXPECT_FALSE(desk_.First(state_).has_value());
}

TEST_F(ScaleDeskTest, WhatIsMeasuredNowOutweighsAnAbsurdEarlierRun) {
  desk_.Remember({RunWith({1, 2, 6}, {.constant = 100, .work = 0, .exchange = 50})});  // best: 1
  truth_ = {.constant = 0.01, .work = 1, .exchange = 0};                               // best: 6
  Fold(SizeChosen{.nodes = 1, .reason = "earlier", .is_measured = true});
  Form(1);
  Settle();
  EXPECT_EQ(6U, state_.world->seats.size());
}

TEST_F(ScaleDeskTest, ModeOffMeasuresNothing) {
  state_.spec.scale = ScaleMode::kOff;
  Form(2);
  EXPECT_FALSE(Train(20).has_value());
  EXPECT_TRUE(desk_.Curve().empty());
}

// ---- nodes that do not come

TEST_F(ScaleDeskTest, ChoosesOnlyAmongTheNodesThatAreHere) {
  state_.spec.nodes_max = 64;
  state_.spec.replace_nodes = true;  // its launcher starts lost nodes again, and no other ones
  truth_ = {.constant = 0.01, .work = 2, .exchange = 0};  // the more, the better
  Form(2);
  Settle();  // asserts that no size has more than six nodes
  EXPECT_EQ(6U, state_.world->seats.size());
}

TEST_F(ScaleDeskTest, GivesUpASizeWhoseNodesDoNotCome) {
  state_.spec.nodes_max = 64;
  state_.spec.is_placed = true;  // a platform may start more
  truth_ = {.constant = 0.01, .work = 2, .exchange = 0};
  Form(2);
  auto due = Train(100);
  while (due.has_value() && due->nodes <= 6) {
    Resize(*due, Duration::Seconds(3));
    due = Train(100);
  }
  ASSERT_TRUE(due.has_value());
  const uint32_t wanted = due->nodes;
  Fold(SizeChosen{.nodes = wanted, .reason = due->why, .is_measured = true});
  EXPECT_FALSE(Train(8).has_value());  // on its way
  now_ = now_ + ScaleDesk::kArrivalPatience;
  due = Train(100);
  ASSERT_TRUE(due.has_value());
  EXPECT_LT(due->nodes, wanted);
}

// A job may end just after its size changed: what is kept of it must still say so.
TEST_F(ScaleDeskTest, ASharedBatchIsKnownBeforeTheNewWorldHasSamples) {
  Form(6);
  Train(4);
  ASSERT_TRUE(desk_.shares_batch());
  Form(2);
  const RankSample other{.generation = Generation(generation_), .rank = Rank(1), .sums = {}};
  desk_.Take(now_, state_, {other});
  EXPECT_TRUE(desk_.shares_batch());
}

}  // namespace
}  // namespace paceline::core
