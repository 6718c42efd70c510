#include "paceline/agent/ranks/page_file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace paceline::agent
