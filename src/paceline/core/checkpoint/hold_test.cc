// Holds that come too late, because links are slow or arenas have few slots.

#include <gtest/gtest.h>

#include <string>

#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

class HoldTest : public LedgerTest {
 protected:
  void FormHosts(uint64_t generation, uint32_t ranks) {
    reports_.resize(ranks);
    for (uint32_t i = 0; i < ranks; ++i) {
      reports_[i].place = reports_[i].domain = "n" + std::to_string(i);
      reports_[i].address = "10.0.0.1:" + std::to_string(i);
    }
    Form(generation, ranks);
    Run();
  }
  // All ranks save that step and overwrite the one before.
  void SaveOnly(int64_t step) {
    for (CheckpointReport& report : reports_) {
      std::erase_if(report.images, [](const MemoryImage& image) { return !image.is_copy; });
    }
    SaveAll(step, true);
  }
  // The step that each rank keeps for the hold that was announced while they were in that branch. A
  // branch has two steps, and orders travel for eight branches. Returns the last rank's branch.
  uint64_t KeepAfterShortBranches(uint64_t branch) {
    const SavedStep hold = *Order(0).hold;
    uint64_t last = branch;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      SavedStep kept{1, 1, branch + 8 + rank};  // the next save after the order arrives
      if (hold > kept) kept = {1, 0, hold.step > 1 ? hold.branch + 1 : hold.branch};
      SaveOnly(rank, kept);
      last = std::max(last, kept.branch);
    }
    Run();
    return last;
  }
  void SaveOnly(uint32_t rank, SavedStep saved) {
    reports_[rank].images.clear();
    Save(rank, 1, saved.step, rank);
    reports_[rank].images.back().saved = saved;
  }
  void Miss() {
    reports_[0].images.clear();
    reports_[1].images.clear();
    Save(0, 1, Order(0).hold->step, 1);
    Save(1, 1, Order(0).hold->step + 1, 2);
    Run();
  }
};

// Found by the simulator (seeds 36285 and 49978): with two slots a rank that sends an image skips
// saves, and copies began again and again just before the hold, for ever.
TEST_F(HoldTest, AfterAHoldThatCameTooLateNoCopiesBeginBeforeTheNext) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  FormHosts(1, 2);
  SaveOnly(5);
  Run();
  EXPECT_FALSE(Order(0).fetch.empty()) << "far from the hold";
  for (CheckpointReport& report : reports_) {
    report.failed = {{Rank(&report == &reports_[0] ? 1u : 0u), {1, 5}, "refused"}};
  }
  Run();
  ASSERT_TRUE(Order(0).fetch.empty());
  now_ = now_ + Duration::Seconds(5);
  for (int i = 0; i < 3; ++i) Miss();
  // Otherwise a copy may begin eight steps before a hold.
  const int64_t hold = Order(0).hold->step;
  SaveOnly(hold - 4);
  Run();
  EXPECT_TRUE(Order(0).fetch.empty()) << "the way is the hold's";
  SaveOnly(hold);
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->saved.step, hold);
  EXPECT_FALSE(Order(0).fetch.empty()) << "what stays for storage can be copied";
}

// Found by the simulator (seed 64736): orders travelled for three steps, and each miss doubled the
// pause before the next try, as after storage errors.
TEST_F(HoldTest, AHoldThatCameTooLateIsTriedAgainSoon) {
  terms_.policy = {.kind = PersistPolicy::Kind::kTime, .time = Duration::Seconds(10)};
  Form(1, 1);
  Run();
  int64_t step = 10;
  SaveOnly(step);
  Run();
  now_ = ledger_.NextDeadline();
  for (int miss = 0; miss < 8; ++miss) {
    Run();
    ASSERT_TRUE(Order(0).hold.has_value()) << miss;
    step = Order(0).hold->step;
    SaveOnly(step);
    Run();
    ASSERT_TRUE(Order(0).persist.has_value());
    SaveOnly(step + 3);
    reports_[0].shards = {{Rank(0), {1, step}, false, "it is gone", {}}};
    Run();
    ASSERT_FALSE(Order(0).persist.has_value());
    reports_[0].shards.clear();
    EXPECT_LE(ledger_.NextDeadline() - now_, Duration::Seconds(2)) << miss;
    now_ = ledger_.NextDeadline();
  }
}

// Found by the simulator (seed 15087): a hold hundreds of steps ahead falls on the first save of
// the next branch. When branches were shorter than the way of an order, each hold came too late,
// and no checkpoint ever reached storage.
TEST_F(HoldTest, WhereBranchesAreShortAHoldCountsThem) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  FormHosts(1, 2);
  for (uint32_t rank = 0; rank < 2; ++rank) SaveOnly(rank, {1, 0, 0});
  Run();
  uint64_t branch = 0;
  int misses = 0;
  while (!Order(0).persist.has_value() && misses < 20) {
    branch = KeepAfterShortBranches(branch);
    ++misses;
  }
  EXPECT_LE(misses, 3);
  ASSERT_TRUE(Order(0).persist.has_value());
  CarryOut();
  CarryOut();
  ASSERT_TRUE(book_.committed.has_value());
  ASSERT_TRUE(Order(0).hold.has_value());
  EXPECT_GT(Order(0).hold->branch, branch + 1);
}

TEST_F(HoldTest, AHoldBehindABranchThatLastsIsTakenBack) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  FormHosts(1, 2);
  for (uint32_t rank = 0; rank < 2; ++rank) SaveOnly(rank, {1, 0, 0});
  Run();
  const uint64_t branch = KeepAfterShortBranches(0);
  ASSERT_GT(Order(0).hold->branch, branch + 1);
  for (const int64_t step : {5, 6}) {
    for (uint32_t rank = 0; rank < 2; ++rank) SaveOnly(rank, {1, step, branch});
    Run();
    now_ = now_ + Duration::Seconds(29);
  }
  EXPECT_GT(Order(0).hold->branch, branch + 1);
  for (uint32_t rank = 0; rank < 2; ++rank) SaveOnly(rank, {1, 7, branch});
  Run();
  EXPECT_EQ(Order(0).hold->branch, branch);
}

// Found by the simulator (seed 1172544): after a world whose last try had failed, the next world
// waited for minutes, as for an interval by time.
TEST_F(HoldTest, TheNextWorldAnnouncesItsFirstStepAtOnce) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 10};
  FormHosts(1, 2);
  SaveOnly(10);
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  reports_[0].shards = {{Rank(0), {1, 10}, false, "no space left on device", {}}};
  Run();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_FALSE(Order(0).hold.has_value()) << "storage is left in peace for a while";
  FormHosts(2, 2);
  EXPECT_TRUE(Order(0).hold.has_value());
}

}  // namespace
}  // namespace paceline::core
