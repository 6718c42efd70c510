#include <gtest/gtest.h>

#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

TEST_F(LedgerTest, ACrowdOfReportsIsLookedAtOnce) {
  Form(1, 3);
  ledger_.Report(NodeId(1), reports_[0]);
  EXPECT_TRUE(ledger_.IsDue(now_, View(), false)) << "another world";
  Run();
  for (uint32_t i = 0; i < 3; ++i) {
    ledger_.Report(NodeId(i + 1), reports_[i]);
    EXPECT_FALSE(ledger_.IsDue(now_, View(), false));
    EXPECT_TRUE(ledger_.has_news());
  }
  EXPECT_TRUE(ledger_.IsDue(now_, View(), true));
  Settle();
  EXPECT_FALSE(ledger_.IsDue(now_, View(), true));
  EXPECT_FALSE(ledger_.has_news());

  ledger_.Forget(NodeId(3));
  EXPECT_TRUE(ledger_.IsDue(now_, View(), true));
  Settle();
  is_ending_ = true;
  EXPECT_TRUE(ledger_.IsDue(now_, View(), false));
}

TEST_F(LedgerTest, WhatIsDueByTimeIsLookedAtOnce) {
  terms_.policy = {.kind = PersistPolicy::Kind::kTime, .steps = 0, .time = Duration::Seconds(5)};
  Form(1, 1);
  Run();
  SaveAll(1);
  Run();
  now_ = ledger_.NextDeadline();
  ASSERT_FALSE(now_.is_max());
  EXPECT_TRUE(ledger_.IsDue(now_, View(), false));
  Settle();
  EXPECT_FALSE(ledger_.IsDue(now_, View(), true)) << "from here on it waits for a report";
}

// The nodes register one by one. Each gets its order; all get theirs once it is known who has what.
// Each reports its writes only once.
TEST_F(LedgerTest, ANewMasterCountsWhatIsInStorageAlready) {
  Form(1, 2);
  Run();
  SaveAll(3);
  reports_[0].flush = SavedStep{1, 3};
  Run();
  CarryOut();
  ASSERT_TRUE(Order(0).commit.has_value());
  CheckpointLedger fresh;
  std::swap(ledger_, fresh);
  Run();
  EXPECT_TRUE(Order(0).commit.has_value()) << "all shards are durable";
  reports_[0].commit = CommitState{Order(0).commit->name, true, "", 100};
  ledger_ = CheckpointLedger();
  Run();
  ASSERT_TRUE(book_.committed.has_value());
  EXPECT_EQ(book_.committed->saved.step, 3);
}

TEST_F(LedgerTest, ANewMasterTriesWhatFailedAgain) {
  Form(1, 2);
  Run();
  SaveAll(3);
  reports_[0].flush = SavedStep{1, 3};
  reports_[1].shards = {{Rank(1), {1, 3}, false, "no space", {}}};
  Run();
  EXPECT_TRUE(said_.empty());
  EXPECT_TRUE(Order(1).persist.has_value());
}

TEST_F(LedgerTest, ANewMasterFindsTheSourcesOfARestoreAgain) {
  Form(1, 3);
  Run();
  SaveAll(3);
  Run();
  Form(2, 3);
  Run();
  const CheckpointOrder before = Order(1);
  ASSERT_EQ(before.restore->sources.size(), 1u);
  ledger_ = CheckpointLedger();
  for (const NodeId node : {NodeId(1), NodeId(2)}) {
    Run(node);
    ledger_.TakeChanged();
    Run(node);
    EXPECT_FALSE(ledger_.TakeChanged());
    ASSERT_EQ(ledger_.TakeNewcomers(), std::vector<NodeId>{node});
    EXPECT_TRUE(Order(1).restore->sources.empty());
  }
  Run(NodeId(3));
  EXPECT_TRUE(ledger_.TakeChanged());
  EXPECT_EQ(Order(1).restore->sources, before.restore->sources);
}

// Found by the simulator (seed 1631213): a node found its image damaged, and was sent to fetch it
// from a neighbour that sees the same memory.
TEST_F(LedgerTest, WhatItsOwnNodeDoesNotTellOfIsNotThere) {
  Form(1, 2);
  Run();
  SaveAll(3, true);
  SaveAll(4, true);
  for (uint32_t i = 0; i < 2; ++i) {
    reports_[i].address = "10.0.0.1:" + std::to_string(i);
    reports_[i].domain = "host";
  }
  reports_[1].images.push_back(reports_[0].images.back());
  std::erase_if(reports_[0].images, [](const MemoryImage& one) { return one.saved.step == 4; });
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.saved.step, 3);
  EXPECT_TRUE(Order(0).fetch.empty());
}

}  // namespace
}  // namespace paceline::core
