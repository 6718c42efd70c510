#include "paceline/core/checkpoint_ledger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::core {
namespace {

// A world of nodes with one rank each, and everything that their agents would tell.
class LedgerTest : public testing::Test {
 protected:
  void Form(uint64_t generation, uint32_t ranks) {
    world_ = World{.generation = Generation(generation), .seats = {}};
    for (uint32_t i = 0; i < ranks; ++i) world_.seats.push_back({NodeId(i + 1), i, 1});
    reports_.resize(std::max<size_t>(reports_.size(), ranks));
    for (CheckpointReport& report : reports_) {
      report.generation = world_.generation;
      report.terms = terms_;
      report.shards.clear();
      report.commit.reset();
    }
  }

  // Rank `rank` has it in the memory of its node; equal roots are equal files.
  void Save(uint32_t rank, uint64_t generation, int64_t step, uint64_t root = 7) {
    reports_[rank].images.push_back({.rank = Rank(rank),
                                     .place = "n" + std::to_string(rank),
                                     .saved = {generation, step},
                                     .world_size = world_.world_size(),
                                     .file_bytes = 100,
                                     .file_root = root});
  }
  void SaveAll(int64_t step, bool is_sharded = false) {
    for (uint32_t rank = 0; rank < world_.world_size(); ++rank) {
      Save(rank, world_.generation.value(), step, is_sharded ? rank : 7);
    }
  }

  // Every node of the world reports, then whatever is due happens.
  void Run() {
    for (uint32_t i = 0; i < world_.world_size(); ++i) ledger_.Report(NodeId(i + 1), reports_[i]);
    Settle();
  }
  void Settle() {
    for (;;) {
      auto fact = ledger_.Next(now_, View(), &said_);
      if (!fact.has_value()) return;
      Apply(*fact, &book_);
      facts_.push_back(*fact);
    }
  }
  // What an agent with a good disk answers.
  void CarryOut() {
    for (uint32_t i = 0; i < world_.world_size(); ++i) {
      const CheckpointOrder order = Order(i);
      if (order.persist.has_value()) {
        reports_[i].shards.clear();
        for (const auto& shard : order.persist->shards) {
          reports_[i].shards.push_back({shard.rank, order.persist->saved, true, "", {}});
        }
      }
      if (order.commit.has_value()) {
        reports_[i].commit = CommitState{order.commit->name, true, "", 100};
      }
    }
    Run();
  }

  CheckpointView View() const {
    return {.book = book_, .world = &world_, .job_id = "job", .is_ending = is_ending_};
  }
  CheckpointOrder Order(uint32_t rank) const { return ledger_.OrderFor(NodeId(rank + 1), View()); }

  CheckpointTerms terms_{.directory = "/d", .keep = 2, .policy = {}};
  World world_;
  std::vector<CheckpointReport> reports_;
  CheckpointLedger ledger_;
  CheckpointBook book_;
  std::vector<CheckpointFact> facts_;
  std::vector<std::string> said_;
  Instant now_ = Instant::FromNanoseconds(1);
  bool is_ending_ = false;
};

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
  reports_[1].generation = Generation(0);  // its ranks of before still live
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

TEST_F(LedgerTest, ANewerWorldsLowerStepIsNewerAndADeadBranchIsNeverTaken) {
  Form(1, 2);
  Run();
  SaveAll(8, true);
  Save(0, 1, 9, 0);
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 8}));
  // A zombie of world 1 goes on to step 9 as well; world 2 has saved nothing yet and fails.
  Save(1, 1, 9, 1);
  Form(3, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 8}));
}

TEST_F(LedgerTest, ShardsThatWentWithAHostAreNotMadeUp) {
  Form(1, 2);
  Run();
  SaveAll(5, true);
  reports_[1].images.clear();  // another host took its place
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kNothing);
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
  // Rank 2's host is gone, and nobody ever said that all ranks hold the same.
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
  EXPECT_EQ(Order(0).hold, 100);
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
  EXPECT_EQ(Order(0).hold, 200);
}

TEST_F(LedgerTest, ARankThatHeardOfTheHoldTooLateMovesIt) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  Form(1, 2);
  Run();
  Save(0, 1, 10);
  Save(1, 1, 11);  // its slot of step 10 was taken again
  Run();
  EXPECT_FALSE(Order(0).persist.has_value());
  EXPECT_GT(*Order(0).hold, 11);
  const int64_t held = *Order(0).hold;
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
  SaveAll(*Order(0).hold);
  Run();
  CarryOut();
  CarryOut();
  EXPECT_TRUE(book_.committed.has_value());
  EXPECT_EQ(Order(0).problem, "");
}

TEST_F(LedgerTest, TheNewestStepIsFlushedWhenTheJobEnds) {
  Form(1, 2);
  Run();
  SaveAll(3);
  Run();
  EXPECT_TRUE(ledger_.IsFlushing(View()));
  is_ending_ = true;
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_FALSE(Order(0).is_over);
  CarryOut();
  CarryOut();
  EXPECT_EQ(book_.committed->saved.step, 3);
  EXPECT_FALSE(ledger_.IsFlushing(View()));
  EXPECT_TRUE(Order(0).is_over);
}

TEST_F(LedgerTest, ANodeThatIsGoneKeepsNobodyFromEnding) {
  Form(1, 2);
  Run();
  SaveAll(3);
  Run();
  is_ending_ = true;
  Run();
  ledger_.Forget(NodeId(2));
  EXPECT_FALSE(ledger_.IsFlushing(View()));
}

// Its images are on the host of others, which tell of them; nobody but itself can write them.
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

// The timed policy: nothing before it is due, then the hold is announced ahead.
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
  EXPECT_EQ(Order(0).hold, 51);
}

}  // namespace
}  // namespace paceline::core
