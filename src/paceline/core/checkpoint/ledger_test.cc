#include "paceline/core/checkpoint/ledger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

TEST_F(LedgerTest, WithoutACheckpointTheJobBeginsAnew) {
  Form(1, 2);
  Run();
  EXPECT_EQ(book_.restore.generation, Generation(1));
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
  EXPECT_EQ(book_.restore.saved.step, -1);
}

TEST_F(LedgerTest, NothingIsDecidedBeforeEveryNodeHasSpoken) {
  Form(1, 2);
  ledger_.Report(NodeId(1), reports_[0]);
  Settle();
  EXPECT_TRUE(facts_.empty());
  reports_[1].generation = Generation(0);  // its ranks of an older world still live
  ledger_.Report(NodeId(2), reports_[1]);
  Settle();
  EXPECT_TRUE(facts_.empty());
  Form(1, 2);
  Run();
  EXPECT_EQ(facts_.size(), 1u);
}

TEST_F(LedgerTest, TheNewestStepThatAllRanksHaveIsTaken) {
  Form(1, 3);
  Run();
  SaveAll(4, true);
  SaveAll(5, true);
  Save(1, 1, 6, 1);  // one rank was ahead
  Form(2, 3);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5}));
  const CheckpointOrder order = Order(2);
  ASSERT_EQ(order.restore->sources.size(), 1u);
  EXPECT_EQ(order.restore->sources[0].images[0].place, "n2");
}

// Nodes without access to storage. Earlier checkpoints there are unknown until a node has looked;
// commits of this job are known, and memory is unaffected.
TEST_F(LedgerTest, ANewJobWaitsForStorageThatNobodySees) {
  Form(1, 2);
  for (CheckpointReport& report : reports_) report.is_blind = true;
  Run();
  EXPECT_TRUE(facts_.empty());
  reports_[0].is_blind = false;
  Run();
  EXPECT_TRUE(facts_.empty()) << "the other may have been there first, and seen more";
  reports_[1].is_blind = false;
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
  EXPECT_EQ(book_.restore.generation, Generation(1));
}

TEST_F(LedgerTest, AJobGoesOnFromMemoryThoughNobodySeesStorage) {
  Form(1, 2);
  Run();
  SaveAll(8, true);
  Form(2, 2);
  for (CheckpointReport& report : reports_) report.is_blind = true;
  Run();
  EXPECT_EQ(book_.restore.generation, Generation(2));
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 8}));
  // Memory is lost, but there is a checkpoint.
  Apply(CheckpointCommitted{"step-8-g1", terms_.directory, {1, 8}, 100}, now_, &book_);
  for (CheckpointReport& report : reports_) report.images.clear();
  Form(3, 2);
  Run();
  EXPECT_EQ(book_.restore.generation, Generation(2)) << "it waits";
  for (CheckpointReport& report : reports_) report.is_blind = false;
  Run();
  EXPECT_EQ(book_.restore.generation, Generation(3));
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
}

TEST_F(LedgerTest, ANewerWorldsLowerStepIsNewerAndADeadBranchIsNeverTaken) {
  Form(1, 2);
  Run();
  SaveAll(8, true);
  Save(0, 1, 9, 0);
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 8}));
  // A zombie of world 1 saves step 9 as well. World 2 has saved nothing yet and fails.
  Save(1, 1, 9, 1);
  Form(3, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 8}));
}

TEST_F(LedgerTest, ShardsThatWentWithAHostAreNotMadeUp) {
  Form(1, 2);
  Run();
  SaveAll(5, true);
  reports_[1].images.clear();  // replaced by another host
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
}

TEST_F(LedgerTest, WhatTheJobCommittedCountsThoughNoNodeHasLookedSince) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 100};
  Form(1, 2);
  Run();
  SaveAll(100, true);
  Run();
  CarryOut();
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  // One of two shards was lost with its host. The other node looked when its job began.
  Form(2, 1);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  EXPECT_EQ(book_.restore.name, book_.committed->name);
  // Unless it was found damaged meanwhile.
  reports_[0].damaged = {book_.committed->name};
  Form(3, 1);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
}

// Found by the simulator: on one machine each node reports all images, and the hold moved on for
// ever.
TEST_F(LedgerTest, WhatANeighbourTellsOfANodeDoesNotMakeTheHoldTooLate) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 100};
  Form(1, 2);
  Run();
  SaveAll(99, true);
  Run();
  SaveAll(100, true);
  for (CheckpointReport& report : reports_) {
    const std::vector<MemoryImage> others = reports_[&report == &reports_[0] ? 1 : 0].images;
    report.images.insert(report.images.end(), others.begin(), others.end());
  }
  ledger_.Report(NodeId(1), reports_[0]);  // the other node's own report has not arrived
  Settle();
  EXPECT_EQ(Order(0).hold, (SavedStep{1, 100}));
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->saved.step, 100);
}

// Found by the simulator: with quick steps no two reports had the same step for all ranks, so no
// step was ever due.
TEST_F(LedgerTest, AHoldIsPlannedThoughNoReportsAgree) {
  terms_.policy = {.kind = PersistPolicy::Kind::kTime, .time = Duration::Seconds(1)};
  Form(1, 2);
  Run();
  Save(0, 1, 8);
  Save(1, 1, 6);
  Run();
  EXPECT_FALSE(Order(0).hold.has_value());
  now_ = now_ + Duration::Seconds(2);
  Settle();
  ASSERT_TRUE(Order(0).hold.has_value());
  EXPECT_GT(Order(0).hold->step, 8);
}

TEST_F(LedgerTest, AReplicaStandsInForALostHost) {
  Form(1, 2);
  Run();
  SaveAll(5);
  for (auto& report : reports_) report.images[0].is_replica = true;
  reports_[1].images = reports_[0].images;  // on the same host as node 1
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(Order(1).restore->sources[0].images[0].place, "n0");
}

TEST_F(LedgerTest, ARankThatIsBehindIsNotGivenAReplicasNewerStep) {
  Form(1, 2);
  Run();
  SaveAll(5);
  Save(0, 1, 6);
  reports_[1].images.push_back(reports_[0].images.back());  // on the same host
  for (auto& report : reports_) {
    for (auto& image : report.images) image.is_replica = true;
  }
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5}));
}

TEST_F(LedgerTest, WhatOnlyLooksLikeAReplicaIsNotOne) {
  Form(1, 3);
  Run();
  // Rank 2's host is gone, and the script never declared that all ranks hold the same tensors.
  Save(0, 1, 5);
  Save(1, 1, 5);
  reports_[2].images = reports_[0].images;
  Form(2, 3);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
}

TEST_F(LedgerTest, EveryHundredStepsGoToStorageOnce) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 100};
  Form(1, 2);
  Run();
  EXPECT_EQ(Order(0).hold, (SavedStep{1, 100}));
  SaveAll(99);
  Run();
  EXPECT_FALSE(Order(0).persist.has_value());
  SaveAll(100);
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->saved, (SavedStep{1, 100}));
  EXPECT_EQ(Order(1).persist->shards[0].file_of, Rank(0)) << "equal files are written once";
  EXPECT_FALSE(Order(0).commit.has_value());
  CarryOut();
  ASSERT_TRUE(Order(0).commit.has_value());
  EXPECT_EQ(Order(0).commit->shards.size(), 2u);
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_EQ(book_.committed->saved, (SavedStep{1, 100}));
  EXPECT_EQ(Order(0).hold, (SavedStep{1, 200}));
}

TEST_F(LedgerTest, ARankThatHeardOfTheHoldTooLateMovesIt) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  Form(1, 2);
  Run();
  Save(0, 1, 10);
  Save(1, 1, 11);  // its slot of step 10 was taken again
  Run();
  EXPECT_FALSE(Order(0).persist.has_value());
  EXPECT_GT(Order(0).hold->step, 11);
  const int64_t held = Order(0).hold->step;
  SaveAll(held);
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->saved.step, held);
}

TEST_F(LedgerTest, AFullDiskCostsThatStepAlone) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  Form(1, 2);
  Run();
  SaveAll(10);
  Run();
  reports_[1].shards = {{Rank(1), {1, 10}, false, "no space left", {}}};
  Run();
  EXPECT_FALSE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).problem, "rank 1: no space left");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_FALSE(Order(0).hold.has_value()) << "not at once";
  now_ = ledger_.NextDeadline();
  Run();
  ASSERT_TRUE(Order(0).hold.has_value());
  SaveAll(Order(0).hold->step);
  Run();
  CarryOut();
  CarryOut();
  EXPECT_TRUE(book_.committed.has_value());
  EXPECT_EQ(Order(0).problem, "");
}

// Found by the simulator on a slow link: in every attempt, the image existed when it was reported
// and was gone when it was to be written.
TEST_F(LedgerTest, AStepThatWasGoneWhenItWasToBeWrittenIsAnnouncedEarlierTheNextTime) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 1};
  Form(1, 2);
  Run();
  int64_t newest = 0;
  for (int64_t ahead : {1, 2, 4}) {
    ASSERT_TRUE(Order(0).hold.has_value());
    EXPECT_EQ(Order(0).hold->step, newest + ahead);
    const int64_t held = Order(0).hold->step;
    SaveAll(held);
    Run();
    ASSERT_TRUE(Order(0).persist.has_value());
    newest = held + 9;
    for (CheckpointReport& report : reports_) report.images.clear();
    SaveAll(newest);
    reports_[1].shards = {{Rank(1), {1, held}, false, "its memory does not hold it any more", {}}};
    Run();
    now_ = ledger_.NextDeadline();
    Run();
  }
}

// Found by the simulator: a master died while a rank waited for a copy whose source was gone. The
// new master had no plan, so no node fetched anything and the rank waited for ever.
TEST_F(LedgerTest, ANewMasterTellsRanksThatNobodyHasWhatTheyWaitFor) {
  Form(1, 2);
  Run();
  SaveAll(5, true);
  Form(2, 2);
  Run();
  ASSERT_EQ(book_.restore.saved, (SavedStep{1, 5}));
  ledger_ = CheckpointLedger();
  reports_[1].images.clear();
  reports_[1].place = "n1";
  ledger_.Report(NodeId(2), reports_[1]);
  Settle();
  EXPECT_TRUE(Order(1).fetch.empty()) << "the other has not spoken yet";
  Run();
  for (uint32_t rank : {0u, 1u}) {
    const CheckpointOrder order = Order(rank);
    ASSERT_EQ(order.fetch.size(), 1u);
    EXPECT_TRUE(order.fetch[0].sources.empty());
    ASSERT_EQ(order.restore->sources.size(), 1u);
    // The order names a rank that does not exist, so images of other ranks are not used instead.
    EXPECT_EQ(order.restore->sources[0].images[0].rank, Rank(2));
  }
}

TEST_F(LedgerTest, AStragglersStepIsGivenUpAndTheNextOneIsStored) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  Form(1, 3);
  Run();
  SaveAll(10);
  Run();
  // Rank 0's node is done; the others have not reported.
  reports_[0].shards = {{Rank(0), {1, 10}, true, "", {}}};
  Run();
  const Instant began = now_;
  now_ = began + Duration::Seconds(30 * 60) - Duration::Nanoseconds(1);
  Run();
  ASSERT_TRUE(Order(1).persist.has_value()) << "not before";
  EXPECT_EQ(ledger_.NextDeadline(), began + Duration::Seconds(30 * 60));
  now_ = ledger_.NextDeadline();
  Run();
  EXPECT_FALSE(Order(1).persist.has_value()) << "its slots are free again";
  EXPECT_EQ(Order(0).problem, "what ranks 1, 2 saved was not there after 30 minutes");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_FALSE(book_.committed.has_value());
  now_ = ledger_.NextDeadline();
  Run();
  SaveAll(Order(0).hold->step);
  Run();
  // Too late: the attempt is over.
  reports_[1].shards = {{Rank(1), {1, 10}, true, "", {}}};
  Run();
  CarryOut();
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_GT(book_.committed->saved.step, 10);
  EXPECT_EQ(Order(0).problem, "");
}

// Other nodes on its host report its images, but only the node itself can write them.
TEST_F(LedgerTest, NothingIsOrderedOfANodeThatIsAway) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  Form(1, 2);
  Run();
  SaveAll(10);
  reports_[0].images.push_back(reports_[1].images.back());
  ledger_.Forget(NodeId(2));
  ledger_.Report(NodeId(1), reports_[0]);
  Settle();
  EXPECT_FALSE(Order(0).persist.has_value());
  is_ending_ = true;
  Settle();
  EXPECT_FALSE(Order(0).persist.has_value());
  is_ending_ = false;
  Run();
  EXPECT_TRUE(Order(0).persist.has_value());
}

TEST_F(LedgerTest, StorageIsTakenWhenMemoryIsGoneAndADamagedOneNever) {
  Form(1, 2);
  for (auto& report : reports_) report.stored = {"step-40-g3", "before", {3, 40}, 2};
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  EXPECT_EQ(book_.restore.name, "step-40-g3");
  reports_[1].damaged = {"step-40-g3"};
  Run();
  ASSERT_EQ(book_.damaged.size(), 1u);
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
  EXPECT_EQ(book_.restore.name, "step-40-g3") << "not as if there had been none";
  EXPECT_EQ(Order(0).damaged, book_.damaged);
}

TEST_F(LedgerTest, WhatIsCommittedIsTakenWhenItIsNewerThanMemory) {
  Form(2, 2);
  SaveAll(5, true);
  for (auto& report : reports_) report.stored = {"step-9-g2", "job", {2, 9}, 2};
  Form(3, 2);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  EXPECT_EQ(book_.restore.saved.step, 9);
}

TEST_F(LedgerTest, AWorldOfAnotherSizeCutsAnewWhatIsAllOnItsHost) {
  Form(1, 4);
  Run();
  SaveAll(6, true);
  std::vector<MemoryImage> all;
  for (const auto& report : reports_)
    all.insert(all.end(), report.images.begin(), report.images.end());
  Form(2, 2);
  for (auto& report : reports_) report.images = all;
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(book_.restore.world_size, 4u);
  EXPECT_EQ(Order(1).restore->sources[0].images.size(), 4u);
}

// The timed policy: nothing before the time, then the hold is announced ahead.
TEST_F(LedgerTest, ByTimeAStepIsAnnouncedWhenItIsDue) {
  terms_.policy = {.kind = PersistPolicy::Kind::kTime, .time = Duration::Seconds(30)};
  Form(1, 2);
  Run();
  SaveAll(50);
  Run();
  EXPECT_FALSE(Order(0).hold.has_value());
  EXPECT_EQ(ledger_.NextDeadline(), now_ + Duration::Seconds(30));
  now_ += Duration::Seconds(30);
  Run();
  EXPECT_EQ(Order(0).hold, (SavedStep{1, 51}));
}

}  // namespace
}  // namespace paceline::core
