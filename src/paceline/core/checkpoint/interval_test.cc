// When a step is due by time: the interval continues over worlds and masters.

#include <gtest/gtest.h>

#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

class IntervalTest : public LedgerTest {
 protected:
  IntervalTest() { terms_.policy = {.kind = PersistPolicy::Kind::kTime, .time = kInterval}; }

  // A world that restores and makes one save.
  void Train(uint64_t generation, int64_t step) {
    Form(generation, 2);
    Run();
    SaveAll(step);
    Run();
  }
  void Pass(Duration time) {
    now_ = now_ + time;
    Settle();
  }
  // The next save goes to storage.
  void Store() {
    ASSERT_TRUE(Order(0).hold.has_value());
    SaveAll(Order(0).hold->step);
    Run();
    for (int i = 0; i < 2; ++i) CarryOut();
    ASSERT_TRUE(book_.committed.has_value());
  }
  bool IsAnnounced() { return Order(0).hold.has_value(); }

  static constexpr Duration kInterval = Duration::Seconds(15);
};

// Found by a user (E6): a job that failed every 10 s with an interval of 15 s stored nothing.
TEST_F(IntervalTest, AJobThatFailsMoreOftenThanTheIntervalStoresItsSteps) {
  Train(1, 10);
  Pass(Duration::Seconds(10));
  EXPECT_FALSE(IsAnnounced());
  Train(2, 20);
  EXPECT_FALSE(IsAnnounced());
  Pass(Duration::Seconds(5));
  EXPECT_TRUE(IsAnnounced()) << "15 s after the first save of the job";
  Store();
  Pass(Duration::Seconds(10));
  Train(3, 30);
  EXPECT_FALSE(IsAnnounced());
  EXPECT_EQ(ledger_.NextDeadline(), now_ + Duration::Seconds(5));
  Pass(Duration::Seconds(5));
  EXPECT_TRUE(IsAnnounced()) << "15 s after the commit";
}

TEST_F(IntervalTest, TheFirstIntervalBeginsWithTheFirstSave) {
  Form(1, 2);
  Run();
  Pass(Duration::Seconds(100));
  EXPECT_FALSE(IsAnnounced());
  SaveAll(1);
  Run();
  EXPECT_FALSE(IsAnnounced());
  Pass(kInterval);
  EXPECT_TRUE(IsAnnounced());
}

TEST_F(IntervalTest, ANewMasterCountsFromTheCommitInItsJournal) {
  Train(1, 10);
  Pass(kInterval);
  Store();
  Pass(Duration::Seconds(12));
  ledger_ = CheckpointLedger();
  Run();
  EXPECT_FALSE(IsAnnounced());
  EXPECT_EQ(ledger_.NextDeadline(), now_ + Duration::Seconds(3));
  Pass(Duration::Seconds(3));
  EXPECT_TRUE(IsAnnounced());
}

// The new master cannot know the time of the first save, which was after the first world's start.
TEST_F(IntervalTest, ANewMasterWithoutACommitCountsFromTheFirstWorld) {
  Train(1, 10);
  Pass(Duration::Seconds(12));
  ledger_ = CheckpointLedger();
  Train(2, 11);
  EXPECT_FALSE(IsAnnounced());
  Pass(Duration::Seconds(3));
  EXPECT_TRUE(IsAnnounced());
}

TEST_F(IntervalTest, AFailedTryIsFollowedByItsPause) {
  Train(1, 10);
  Pass(kInterval);
  ASSERT_TRUE(IsAnnounced());
  SaveAll(Order(0).hold->step);
  Run();
  reports_[0].shards = {{Rank(0), Order(0).persist->saved, false, "no space left on device", {}}};
  Run();
  EXPECT_FALSE(IsAnnounced());
  EXPECT_EQ(ledger_.NextDeadline(), now_ + Duration::Seconds(2));
}

TEST_F(IntervalTest, AStepIsStoredAtOnceForANodeThatLeaves) {
  Train(1, 10);
  Pass(Duration::Seconds(3));
  ASSERT_FALSE(IsAnnounced());
  is_hurried_ = true;
  SaveAll(11);
  Run();
  ASSERT_TRUE(IsAnnounced());
  EXPECT_EQ(Order(0).hold->step, 12) << "all ranks can still keep that one";
  Store();
  EXPECT_EQ(book_.committed->saved.step, 12);
}

TEST_F(IntervalTest, AStepFarAwayIsNotWaitedForByANodeThatLeaves) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 1000};
  Train(1, 10);
  ASSERT_TRUE(IsAnnounced());
  EXPECT_EQ(Order(0).hold->step, 1000);
  is_hurried_ = true;
  SaveAll(11);
  Run();
  EXPECT_EQ(Order(0).hold->step, 12);
  is_hurried_ = false;  // by then the world has changed
  Store();
  EXPECT_EQ(book_.committed->saved.step, 12);
  SaveAll(13);
  Run();
  EXPECT_EQ(Order(0).hold->step, 1000) << "the interval goes on as before";
}

}  // namespace
}  // namespace paceline::core
