#include "paceline/agent/ranks/page_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

PageIdentity Identity(const std::string& boot_id) {
  return {.job_id = "job", .node = "node0", .boot_id = boot_id, .slot_count = 2};
}

TEST(PageFileTest, AdoptsOnlyAPageOfItsOwn) {
  const TestDir dir;
  const std::string path = dir.path() + "/page";
  const std::string boot_id = BootId();
  auto made = PageFile::AdoptOrMake(path, Identity(boot_id));
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE((*made)->was_adopted());
  EXPECT_FALSE((*made)->Read(0).has_value());
  EXPECT_FALSE((*made)->Read(99).has_value());
  auto again = PageFile::AdoptOrMake(path, Identity(boot_id));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->was_adopted());
  auto other_boot = PageFile::AdoptOrMake(path, Identity("another-boot"));
  ASSERT_TRUE(other_boot.ok());
  EXPECT_FALSE((*other_boot)->was_adopted());
  EXPECT_EQ(CountRanks(**other_boot).placed, 0u);
}

TEST(PageFileTest, ReplacesGarbage) {
  const TestDir dir;
  const std::string path = dir.path() + "/page";
  for (const std::string& text : {std::string(), std::string("PLPAGE1"), std::string(9000, 'x')}) {
    ASSERT_TRUE(ReplaceFile(path, text, 0600).ok());
    EXPECT_FALSE(PageFile::Open(path).ok());
    EXPECT_TRUE(PageFile::AdoptOrMake(path, Identity(BootId())).ok());
  }
}

TEST(PageFileTest, ReportsAbsoluteStepsOnlyWhenTold) {
  SlotReading reading;
  reading.generation = 4;
  reading.rank = 2;
  reading.local_rank = 1;
  reading.step = 17;
  reading.step_count = 18;
  EXPECT_EQ(ReportOf(reading).step, -1);
  EXPECT_EQ(ReportOf(reading).state, RankReport::State::kStepping);
  reading.flags = kSlotStepIsAbsolute;
  EXPECT_EQ(ReportOf(reading).step, 17);
  EXPECT_FALSE(ReportOf(reading).has_loss);
}

TEST(PageFileTest, AProgramRunsFromItsStartAndAScriptFromItsFirstLine) {
  SlotReading reading;
  reading.state = SlotState::kStarting;
  reading.how = SlotStart::kExec;
  EXPECT_EQ(ReportOf(reading).state, RankReport::State::kStarting);
  reading.state = SlotState::kRunning;
  EXPECT_EQ(ReportOf(reading).state, RankReport::State::kRunning);
  reading.how = SlotStart::kCold;
  EXPECT_EQ(ReportOf(reading).state, RankReport::State::kStarting);
  reading.entered_monotonic_ns = 1;
  EXPECT_EQ(ReportOf(reading).state, RankReport::State::kRunning);
}

TEST(PageFileTest, ReportsALossThatIsNoNumberWhenItWasTold) {
  SlotReading reading;
  reading.flags = kSlotLossTold;
  EXPECT_TRUE(ReportOf(reading).has_loss);
  EXPECT_TRUE(std::isnan(ReportOf(reading).loss));
  EXPECT_EQ(BadLoss(), ReportOf(reading).bad_loss);
  reading.bad_losses = 1;
  reading.bad_step = 7;
  reading.bad_kind = 9;  // unknown to this release
  EXPECT_EQ(BadLoss(), ReportOf(reading).bad_loss);
  reading.bad_kind = 1;
  EXPECT_EQ(7, ReportOf(reading).bad_loss.step);
  EXPECT_EQ(BadLossKind::kLossNoNumber, ReportOf(reading).bad_loss.kind);
}

}  // namespace
}  // namespace paceline::agent
