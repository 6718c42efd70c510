// What is written to storage at the end of a job, and for which nodes the job waits.

#include <gtest/gtest.h>

#include "paceline/core/checkpoint/ledger.h"
#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

class EndTest : public LedgerTest {
 protected:
  // Forms a world of `ranks` that has saved and reported `step`.
  void FormAndSave(uint32_t ranks, int64_t step, bool is_sharded = false) {
    Form(1, ranks);
    Run();
    SaveAll(step, is_sharded);
    Run();
  }

  // The first node has a copy of `image`.
  void CopyToFirst(MemoryImage image) {
    image.place = "n0";
    image.is_copy = true;
    reports_[0].images.push_back(image);
  }
};

TEST_F(EndTest, TheNewestStepIsFlushedWhenTheJobEnds) {
  FormAndSave(2, 3);
  EXPECT_FALSE(ledger_.is_over());
  is_ending_ = true;
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_FALSE(Order(0).is_over);
  CarryOut();
  CarryOut();
  EXPECT_EQ(book_.committed->saved.step, 3);
  EXPECT_TRUE(ledger_.is_over());
  EXPECT_TRUE(Order(0).is_over);
}

TEST_F(EndTest, TheEndWaitsForWhatWasSavedAndNotToldYet) {
  Form(1, 2);
  Run();
  SaveAll(3);
  is_ending_ = are_ranks_left_ = true;
  Run();
  CarryOut();
  CarryOut();
  ASSERT_EQ(book_.committed->saved.step, 3);
  EXPECT_FALSE(ledger_.is_over());
  EXPECT_FALSE(Order(0).is_over);
  SaveAll(4);
  are_ranks_left_ = false;
  ledger_.TakeChanged();
  Run();
  EXPECT_TRUE(ledger_.TakeChanged());
  EXPECT_FALSE(Order(0).is_over);
  CarryOut();
  CarryOut();
  EXPECT_EQ(book_.committed->saved.step, 4);
  EXPECT_TRUE(Order(0).is_over);
}

// A disconnected node may still hold the newest image: it may be partitioned, or the master is new.
TEST_F(EndTest, ANodeThatIsAwayIsAwaitedAndALostOneIsNot) {
  FormAndSave(2, 3);
  ledger_.Forget(NodeId(2));
  is_ending_ = true;
  Run(NodeId(1));
  EXPECT_FALSE(Order(0).persist.has_value());
  EXPECT_FALSE(ledger_.is_over());
  lost_ = {NodeId(2)};
  ASSERT_TRUE(ledger_.IsDue(now_, View(), false)) << "nobody says anything any more";
  Settle();
  EXPECT_TRUE(ledger_.is_over());
  EXPECT_EQ(ledger_.newest_in_memory(), std::nullopt);
  EXPECT_EQ(ledger_.newest_saved(), (SavedStep{1, 3})) << "the end must not be told as a good one";
  EXPECT_EQ(Order(0).problem, kPartIsLost) << "an agent frees its memory without one";
  EXPECT_TRUE(ledger_.TakeChanged());
  EXPECT_FALSE(ledger_.IsDue(now_, View(), true));
  lost_.clear();
  Run();
  EXPECT_TRUE(ledger_.is_over()) << "memory may have been given back since";
}

// The world was still looked at between the loss of the host and the end of the job.
TEST_F(EndTest, AStepThatAHostTookAlongBeforeTheEndIsTold) {
  FormAndSave(2, 3);
  ledger_.Forget(NodeId(2));
  Run(NodeId(1));
  ASSERT_EQ(ledger_.newest_in_memory(), std::nullopt);
  is_ending_ = true;
  Run(NodeId(1));
  lost_ = {NodeId(2)};
  Settle();
  EXPECT_TRUE(ledger_.is_over());
  EXPECT_EQ(ledger_.newest_saved(), (SavedStep{1, 3}));
  EXPECT_EQ(Order(0).problem, kPartIsLost);
}

TEST_F(EndTest, AJobWithoutCheckpointsIsOverAtOnce) {
  Form(1, 2);
  is_ending_ = true;
  ASSERT_TRUE(ledger_.IsDue(now_, View(), false));
  Settle();
  EXPECT_TRUE(ledger_.is_over());
  EXPECT_FALSE(ledger_.IsDue(now_, View(), true));
}

TEST_F(EndTest, AWorldThatFailsBeforeItsFirstSaveLeavesWhatItWentOnFrom) {
  FormAndSave(2, 3);
  Form(2, 2);
  Run();
  ASSERT_EQ(book_.restore.saved, (SavedStep{1, 3}));
  is_ending_ = true;
  Run();
  CarryOut();
  EXPECT_FALSE(ledger_.is_over());
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_EQ(book_.committed->saved, (SavedStep{1, 3}));
  EXPECT_TRUE(ledger_.is_over());
}

TEST_F(EndTest, AWorldThatHasNotDecidedWhatItRestoresLeavesTheNewest) {
  FormAndSave(2, 3);
  Form(2, 2);
  is_ending_ = true;
  Run();
  EXPECT_EQ(book_.restore.generation, Generation(1)) << "nobody will restore";
  CarryOut();
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_EQ(book_.committed->saved, (SavedStep{1, 3}));
}

TEST_F(EndTest, WhatTheJobGaveUpIsNotStored) {
  FormAndSave(2, 3);
  Form(2, 2);
  Run();
  SaveAll(4);  // after the step from which world 2 continued; by surviving processes of world 1
  for (CheckpointReport& report : reports_) report.images.back().saved.generation = 1;
  is_ending_ = true;
  Run();
  CarryOut();
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_EQ(book_.committed->saved, (SavedStep{1, 3}));
}

TEST_F(EndTest, CopiesStandForWhatALostHostSaved) {
  FormAndSave(3, 3, true);
  CopyToFirst(reports_[2].images.back());
  Run();
  lost_ = {NodeId(3)};
  ledger_.Forget(NodeId(3));
  is_ending_ = true;
  Run(NodeId(1));
  Run(NodeId(2));
  ASSERT_TRUE(Order(0).persist.has_value());
  ASSERT_EQ(Order(0).persist->shards.size(), 2u);
  EXPECT_EQ(Order(0).persist->shards[1].rank, Rank(2));
  EXPECT_EQ(Order(0).persist->world_size, 3u);
}

// The world's own node is gone. The rest was saved by a node without a seat.
TEST_F(EndTest, ANodeWithoutASeatWritesTheManifest) {
  FormAndSave(1, 3);
  world_.seats = {{NodeId(2), 0, 1}};
  world_.generation = Generation(2);
  lost_ = {NodeId(2)};
  left_ = {NodeId(1)};
  is_ending_ = true;
  Run(NodeId(1));
  ASSERT_TRUE(Order(0).persist.has_value());
  reports_[0].shards = {{Rank(0), {1, 3}, true, "", {}}};
  Run(NodeId(1));
  ASSERT_TRUE(Order(0).commit.has_value());
  reports_[0].commit = CommitState{Order(0).commit->name, true, "", 100};
  Run(NodeId(1));
  EXPECT_EQ(book_.committed->saved, (SavedStep{1, 3}));
  EXPECT_TRUE(ledger_.is_over());
}

TEST_F(EndTest, ALostWriterLeavesTheStepBefore) {
  FormAndSave(2, 3);
  SaveAll(4);
  CopyToFirst(reports_[1].images.front());
  is_ending_ = true;
  Run();
  ASSERT_EQ(Order(0).persist->saved.step, 4);
  ledger_.Forget(NodeId(2));
  Settle();
  EXPECT_EQ(Order(0).persist->saved.step, 4) << "it may come back";
  lost_ = {NodeId(2)};
  ASSERT_TRUE(ledger_.IsDue(now_, View(), false));
  Settle();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->saved.step, 3);
  EXPECT_EQ(Order(0).persist->shards.size(), 2u);
  EXPECT_FALSE(ledger_.is_over());
}

TEST_F(EndTest, RanksThatSaveOnInTheirGraceCostNothing) {
  Form(1, 2);
  Run();
  SaveAll(3);
  is_ending_ = are_ranks_left_ = true;
  Run();
  ASSERT_EQ(Order(1).persist->saved.step, 3);
  for (CheckpointReport& report : reports_) report.images.clear();
  SaveAll(5);
  reports_[1].shards = {{Rank(1), {1, 3}, false, "overwritten", {}}};
  Run();
  EXPECT_TRUE(said_.empty());
  ASSERT_TRUE(Order(1).persist.has_value());
  EXPECT_EQ(Order(1).persist->saved.step, 5);
}

TEST_F(EndTest, ALastWordMeansNothingToTheOthers) {
  Form(1, 3);
  is_ending_ = are_ranks_left_ = true;
  Run();
  ledger_.TakeChanged();
  EXPECT_EQ(ledger_.TakeNewcomers().size(), 3u);
  are_ranks_left_ = false;
  Tell(NodeId(1));
  Tell(NodeId(2));
  EXPECT_FALSE(ledger_.TakeChanged()) << "with ten thousand nodes each would cost ten thousand";
  EXPECT_TRUE(ledger_.TakeNewcomers().empty());
}

TEST_F(EndTest, StorageThatFailsGetsOneMoreTryAndEndsTheJobAllTheSame) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 3};
  FormAndSave(2, 3);
  reports_[1].shards = {{Rank(1), {1, 3}, false, "no space", {}}};
  Run();
  ASSERT_FALSE(Order(1).persist.has_value());
  reports_[1].shards.clear();
  is_ending_ = true;
  Run();
  ASSERT_TRUE(Order(1).persist.has_value());
  EXPECT_FALSE(ledger_.is_over());
  reports_[1].shards = {{Rank(1), {1, 3}, false, "no space", {}}};
  Run();
  EXPECT_TRUE(ledger_.is_over());
  EXPECT_EQ(Order(0).problem, "rank 1: no space");
}

// Between its reboot and its loss the node had reported nothing.
TEST_F(LedgerTest, AStopDoesNotWaitForWhatWentWithALostNode) {
  Form(1, 1);
  Run();
  SaveAll(3);
  Run();
  ledger_.Forget(NodeId(1));
  is_ending_ = true;
  Settle();
  EXPECT_FALSE(Order(0).is_over) << "it may come back";
  lost_ = {NodeId(1)};
  ASSERT_TRUE(ledger_.IsDue(now_, View(), true));
  Settle();
  EXPECT_TRUE(Order(0).is_over);
}

}  // namespace
}  // namespace paceline::core
