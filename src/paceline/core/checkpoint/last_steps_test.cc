// Ranks that close with different last steps.

#include "paceline/core/checkpoint/last_steps.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

class LastStepsTest : public LedgerTest {
 protected:
  void Begin() {
    terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 1'000};
    Form(1, 2);
    Run();
    for (const int64_t step : {3, 4}) SaveAll(step, true);
    Save(0, 1, 5, 0);
  }
  // As Job::Step does at one of its deadlines.
  void Look() {
    CheckpointView view = View();
    view.has_ended = [this](NodeId, Rank rank) { return ended_.contains(rank.value()); };
    while (ledger_.IsDue(now_, view, true)) {
      auto fact = ledger_.Next(now_, view, &said_);
      if (fact.has_value()) Apply(*fact, now_, &book_);
    }
  }
  void Report() {
    for (uint32_t i = 0; i < 2; ++i) ledger_.Report(NodeId(i + 1), reports_[i]);
    Look();
  }
  std::set<uint32_t> ended_;
};

TEST_F(LastStepsTest, WhoeverWaitsForWhatAnEndedRankDidNotSaveIsTold) {
  Begin();
  reports_[0].flush = SavedStep{1, 5};
  reports_[1].flush = SavedStep{1, 4};
  Report();
  ASSERT_TRUE(Order(1).persist.has_value()) << "what the other one waits for is whole";
  EXPECT_EQ(Order(1).persist->saved.step, 4);
  CarryOut();
  CarryOut();
  ASSERT_EQ(book_.committed->saved.step, 4);
  reports_[1].flush.reset();
  Report();
  EXPECT_EQ(Order(0).problem, "") << "rank 1 may save step 5 yet";
  ended_ = {1};
  now_ = ledger_.NextDeadline();
  Look();
  EXPECT_TRUE(SaysNever(Order(0).problem));
  EXPECT_EQ(Order(0).problem,
            "not every rank has it: rank 1 has ended, its last save is step 4; "
            "step 4 is in storage");
  // No rank waits any more.
  reports_[0].flush.reset();
  Report();
  EXPECT_EQ(Order(0).problem, "");
  EXPECT_GT(ledger_.NextDeadline(), now_);
}

TEST_F(LastStepsTest, TheNewestWholeStepGoesToStorageBeforeAnybodyIsTold) {
  Begin();
  reports_[0].flush = SavedStep{1, 5};
  ended_ = {1};  // it skipped its last save and did not wait
  Report();
  EXPECT_EQ(Order(0).problem, "");
  ASSERT_TRUE(Order(1).persist.has_value());
  EXPECT_EQ(Order(1).persist->saved.step, 4);
  for (uint32_t i = 0; i < 2; ++i) reports_[i].shards = {{Rank(i), {1, 4}, true, "", {}}};
  Report();
  reports_[0].commit = CommitState{"step-4-g1", true, "", 100};
  Report();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_TRUE(SaysNever(Order(0).problem));
}

TEST_F(LastStepsTest, RanksThatWaitForEachOtherAreToldWhenNobodySavesAnyMore) {
  Begin();
  for (CheckpointReport& report : reports_) report.images.clear();
  Save(0, 1, 9, 0);
  Save(1, 1, 8, 1);
  reports_[0].flush = SavedStep{1, 9};
  reports_[1].flush = SavedStep{1, 8};
  Report();
  const Instant begun = now_;
  while (now_ < begun + LastSteps::kQuiet - Duration::Seconds(1)) {
    now_ = ledger_.NextDeadline();
    Look();
    ASSERT_EQ(Order(0).problem, "");
  }
  now_ = now_ + Duration::Seconds(2);
  Look();
  EXPECT_EQ(
      Order(0).problem,
      "not every rank has it: rank 0 has only later steps in memory, its last save is step 9; "
      "nothing of this job is in storage");
}

// One rank has more data than the other, and both close.
TEST_F(LastStepsTest, WhoeverHasClosedIsNotWaitedFor) {
  Begin();
  reports_[0].flush = SavedStep{1, 5};
  reports_[1].flush = SavedStep{1, 4};
  for (uint32_t rank : {0, 1}) reports_[rank].finished = {rank};
  Report();
  ASSERT_TRUE(Order(1).persist.has_value()) << "step 4 is whole";
  CarryOut();
  CarryOut();
  ASSERT_EQ(book_.committed->saved.step, 4);
  reports_[1].flush.reset();  // its process waits for rank 0 in a barrier
  Report();
  now_ = now_ + LastSteps::kReopen;
  Look();
  EXPECT_EQ(Order(0).problem,
            "not every rank has it: rank 1 has nothing more to save, its last save is "
            "step 4; step 4 is in storage");
}

// Steps without a collective, faster than the master hears of them.
TEST_F(LastStepsTest, ARankThatHasOverwrittenTheLastCommonStepIsNamed) {
  Begin();
  for (CheckpointReport& report : reports_) report.images.clear();
  Save(0, 1, 18, 0);
  Save(0, 1, 19, 0);
  Save(1, 1, 12, 1);
  reports_[0].flush = SavedStep{1, 19};
  for (uint32_t rank : {0, 1}) reports_[rank].finished = {rank};
  Report();
  now_ = now_ + LastSteps::kReopen;
  Look();
  EXPECT_EQ(Order(1).problem,
            "not every rank has it: rank 1 has nothing more to save, its last save is "
            "step 12; rank 0 has overwritten that step with later ones; nothing of this job is in "
            "storage");
}

// A script closes a Checkpointer and opens another one. Rank 0 has saved and closed again before
// rank 1 has opened it.
TEST_F(LastStepsTest, WhoeverHasClosedMayOpenAgain) {
  Begin();
  reports_[0].flush = SavedStep{1, 5};
  reports_[1].flush = SavedStep{1, 4};
  for (uint32_t rank : {0, 1}) reports_[rank].finished = {rank};
  Report();
  CarryOut();
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  ASSERT_EQ(book_.committed->saved.step, 4);
  reports_[1].flush.reset();
  Report();
  now_ = now_ + LastSteps::kReopen - Duration::Seconds(1);
  Look();
  EXPECT_EQ(Order(0).problem, "");
  reports_[1].finished.clear();
  Report();
  now_ = now_ + LastSteps::kReopen * 2;
  Look();
  EXPECT_EQ(Order(0).problem, "") << "rank 1 has opened one, and may save";
  Save(1, 1, 5, 1);
  Report();
  CarryOut();
  CarryOut();
  EXPECT_EQ(book_.committed->saved.step, 5);
}

TEST_F(LastStepsTest, WhoeverIsSlowIsWaitedFor) {
  Begin();
  reports_[0].flush = SavedStep{1, 5};
  Report();
  now_ = now_ + LastSteps::kQuiet * 10;
  Look();
  EXPECT_EQ(Order(0).problem, "") << "rank 1 does not wait";
  Save(1, 1, 5, 1);
  Report();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->saved.step, 5);
}

// A node whose ranks had ended is lost while its images are being moved. Their steps cannot be
// completed.
TEST_F(LastStepsTest, WhoeverWaitsForWhatALostNodeHadIsTold) {
  Begin();
  Save(1, 1, 5, 1);
  reports_[0].flush = SavedStep{1, 5};
  Report();
  ASSERT_TRUE(Order(1).persist.has_value());
  EXPECT_EQ(Order(1).persist->saved.step, 5);
  ended_ = {1};
  gone_ = {NodeId(2)};
  ledger_.Forget(NodeId(2));
  Look();
  EXPECT_EQ(Order(0).persist, std::nullopt);
  EXPECT_EQ(Order(0).problem,
            "not every rank has it: rank 1 has ended and has saved nothing; "
            "nothing of this job is in storage");
}

TEST_F(LastStepsTest, ACopyOfWhatALostNodeHadIsWritten) {
  Begin();
  Save(1, 1, 5, 1);
  MemoryImage copy = reports_[1].images.back();
  copy.place = "n0";
  copy.is_copy = true;
  reports_[0].images.push_back(copy);
  reports_[0].flush = SavedStep{1, 5};
  ended_ = {1};
  gone_ = {NodeId(2)};
  Report();
  ledger_.Forget(NodeId(2));
  Look();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->shards.size(), 2u);
  EXPECT_EQ(Order(0).problem, "");
  reports_[0].shards = {{Rank(0), {1, 5}, true, "", {}}, {Rank(1), {1, 5}, true, "", {}}};
  ledger_.Report(NodeId(1), reports_[0]);
  Look();
  reports_[0].commit = CommitState{"step-5-g1", true, "", 100};
  ledger_.Report(NodeId(1), reports_[0]);
  Look();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_EQ(book_.committed->saved.step, 5);
}

// While a node is away the check is not possible, and it must not be repeated in a loop.
TEST_F(LastStepsTest, ADeadlineThatIsOverIsNotDueAgain) {
  Begin();
  reports_[0].flush = SavedStep{1, 5};
  Report();
  ledger_.Forget(NodeId(2));
  Look();
  now_ = now_ + Duration::Seconds(5);
  Look();
  EXPECT_GT(ledger_.NextDeadline(), now_);
}

}  // namespace
}  // namespace paceline::core
