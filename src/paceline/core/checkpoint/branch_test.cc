// Scripts whose steps repeat or go back: the last save is the newest.

#include <gtest/gtest.h>

#include "paceline/core/testing/ledger_fixture.h"

namespace paceline::core {
namespace {

class BranchTest : public LedgerTest {
 protected:
  void SaveAllIn(uint64_t branch, int64_t step) {
    SaveAll(step);
    for (CheckpointReport& report : reports_) report.images.back().saved.branch = branch;
  }
};

TEST_F(BranchTest, AWorldGoesOnFromTheSaveThatWasMadeLast) {
  Form(1, 2);
  Run();
  SaveAllIn(0, 10);
  SaveAllIn(1, 3);
  Run();
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 3, 1})) << book_.restore.reason;
}

TEST_F(BranchTest, ImagesOfDifferentBranchesAreNeverCombined) {
  Form(1, 2);
  Run();
  SaveAllIn(0, 3);
  Save(0, 1, 3);
  reports_[0].images.back().saved.branch = 1;  // rank 1 is behind
  Run();
  Form(2, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 3}));
}

TEST_F(BranchTest, TheFirstSaveOfABranchIsStoredWhenOneWasDue) {
  terms_.policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 100};
  Form(1, 2);
  Run();
  SaveAllIn(0, 90);
  Run();
  ASSERT_EQ(Order(0).hold, (SavedStep{1, 100}));
  SaveAllIn(1, 5);
  Run();
  ASSERT_TRUE(Order(0).persist.has_value());
  EXPECT_EQ(Order(0).persist->name, "step-5-g1-b1");
  CarryOut();
  CarryOut();
  EXPECT_EQ(book_.committed->saved, (SavedStep{1, 5, 1}));
  EXPECT_EQ(Order(0).hold, (SavedStep{1, 100, 1})) << "the interval is counted anew";
}

TEST_F(BranchTest, WhoeverWaitsForALaterSaveOfALowerStepGetsIt) {
  Form(1, 2);
  Run();
  SaveAllIn(0, 10);
  for (CheckpointReport& report : reports_) report.flush = SavedStep{1, 10};
  Run();
  CarryOut();
  CarryOut();
  ASSERT_EQ(book_.committed->saved, (SavedStep{1, 10}));
  SaveAllIn(1, 3);
  for (CheckpointReport& report : reports_) report.flush = SavedStep{1, 3, 1};
  Run();
  ASSERT_TRUE(Order(0).persist.has_value()) << "step 10 in storage is older";
  EXPECT_EQ(Order(0).persist->saved, (SavedStep{1, 3, 1}));
}

TEST_F(BranchTest, AHigherWorldWinsOverAnyBranch) {
  Form(1, 2);
  Run();
  SaveAllIn(7, 10);
  Run();
  Form(2, 2);
  Run();
  SaveAll(11);
  SaveAllIn(0, 12);
  Run();
  Form(3, 2);
  Run();
  EXPECT_EQ(book_.restore.saved, (SavedStep{2, 12}));
}

}  // namespace
}  // namespace paceline::core
