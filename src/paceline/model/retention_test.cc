#include "paceline/model/retention.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

KeptFolder Whole(int64_t step, uint64_t generation, int64_t changed_ns) {
  return {.name = "step-" + std::to_string(step) + "-g" + std::to_string(generation),
          .is_whole = true,
          .saved = {generation, step},
          .changed_ns = changed_ns};
}
KeptFolder Unfinished(int64_t changed_ns) { return {.name = "x", .changed_ns = changed_ns}; }

using Indexes = std::vector<size_t>;

TEST(Retention, KeepsTheNewestOnes) {
  const std::vector<KeptFolder> folders = {Whole(10, 1, 1), Whole(30, 1, 3), Whole(20, 1, 2)};
  EXPECT_EQ(WhatMayGo(folders, 2), (Indexes{0}));
  EXPECT_EQ(WhatMayGo(folders, 3), Indexes{});
}

TEST(Retention, AtLeastOneStays) {
  EXPECT_EQ(WhatMayGo(std::vector{Whole(10, 1, 1)}, 0), Indexes{});
}

TEST(Retention, AWriterThatKeepsAllRemovesNothing) {
  const std::vector<KeptFolder> folders = {Whole(10, 1, 1), Unfinished(0), Whole(30, 1, 3)};
  EXPECT_EQ(WhatMayGo(folders, 1), (Indexes{0, 1}));
  EXPECT_EQ(WhatMayGo(folders, kKeepAll), Indexes{});
}

// Names of the whole ones, the newest first.
std::vector<std::string> Sorted(const std::vector<KeptFolder>& folders) {
  std::vector<std::string> names;
  for (const size_t i : NewestFirst(folders)) names.push_back(folders[i].name);
  return names;
}

TEST(Retention, TheOrderIsThatOfSavingAndNotOfSteps) {
  std::vector<KeptFolder> folders = {Whole(90, 1, 1), Whole(40, 3, 2), Whole(41, 3, 3)};
  folders[1].saved.branch = 1;  // the script went back from step 41 to 40
  EXPECT_EQ(Sorted(folders), (std::vector<std::string>{"step-40-g3", "step-41-g3", "step-90-g1"}));
  EXPECT_EQ(WhatMayGo(folders, 1), (Indexes{2, 0}));
}

TEST(Retention, OfTwoJobsTheOneThatLatestNamesIsTheNewest) {
  std::vector<KeptFolder> folders = {Whole(90, 1, 1), Whole(40, 1, 2)};
  folders[1].job_id = "another";
  EXPECT_EQ(WhatMayGo(folders, 1), (Indexes{1})) << "LATEST names none";
  folders[1].is_latest = true;  // it started anew
  EXPECT_EQ(WhatMayGo(folders, 1), (Indexes{0}));
}

TEST(Retention, ALaterSaveOfTheSameJobIsNewerThanWhatLatestNames) {
  std::vector<KeptFolder> folders = {Whole(25, 1, 1), Whole(50, 1, 2), Whole(10, 2, 3)};
  folders[0].is_latest = true;
  EXPECT_EQ(Sorted(folders).front(), "step-10-g2") << "of a newer world, whatever its step";
  folders[2].is_whole = false;
  EXPECT_EQ(Sorted(folders).front(), "step-50-g1") << "its commit was cut off";
  folders[1].job_id = "another";
  EXPECT_EQ(Sorted(folders).front(), "step-25-g1");
}

TEST(Retention, AHigherClaimIsNewerWhateverLatestSays) {
  std::vector<KeptFolder> folders = {Whole(90, 7, 1), Whole(40, 1, 2)};
  folders[0].is_latest = true;  // the other writer's commit was cut off before LATEST
  folders[0].claim = 1;
  folders[1].claim = 2;
  folders[1].job_id = "another";
  EXPECT_EQ(Sorted(folders).front(), "step-40-g1");
}

TEST(Retention, WhatIsBeingWrittenStays) {
  const std::vector<KeptFolder> folders = {Unfinished(1), Whole(10, 1, 5), Unfinished(9)};
  EXPECT_EQ(WhatMayGo(folders, 1), (Indexes{0}));
}

TEST(Retention, NothingGoesBeforeSomethingIsWhole) {
  EXPECT_EQ(WhatMayGo(std::vector{Unfinished(1), Unfinished(2)}, 1), Indexes{});
}

}  // namespace
}  // namespace paceline
