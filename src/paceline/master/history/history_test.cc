// The history: texts of curves, the file, its keeper, and which runs are alike.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/master/history/curve_text.h"
#include "paceline/master/history/history_file.h"
#include "paceline/master/history/history_keeper.h"
#include "paceline/master/history/signature.h"

namespace paceline::master {
namespace {

JobHistory Measured(const std::string& run, int64_t at_ms, const std::string& signature = "s") {
  return {.run = run,
          .signature = signature,
          .name = "train",
          .device = "EPYC x 2",
          .at_ms = at_ms,
          .shares_batch = true,
          .curve = {{.nodes = 1, .step_seconds = 0.1, .error = 0.001, .windows = 4},
                    {.nodes = 2, .step_seconds = 1.0 / 3, .error = 0, .windows = 9}}};
}

std::vector<std::string> RunsOf(const absl::StatusOr<std::vector<JobHistory>>& found) {
  std::vector<std::string> runs;
  EXPECT_TRUE(found.ok()) << found.status();
  if (!found.ok()) return runs;
  for (const JobHistory& one : *found) runs.push_back(one.run);
  return runs;
}

TEST(CurveText, IsTheSameAfterARoundTrip) {
  const std::vector<SizeSpeed> curve = Measured("r", 1).curve;
  const auto back = CurveFromText(CurveToText(curve));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(curve, *back);
  EXPECT_EQ(std::vector<SizeSpeed>(), CurveFromText("").value());
}

TEST(CurveText, WhatCannotBeAJobIsRefused) {
  for (const char* text :
       {"x", "1", "1:2", "1:2:3", "1:2:3:4:5", "0:1:0:4", "1:0:0:4", "1:-1:0:4", "1:1:-1:4",
        "1:nan:0:4", "1:inf:0:4", "1:1:nan:4", "1:1e7:0:4", "2000000:1:0:4", "2:1:0:4,1:1:0:4",
        "1:1:0:4,1:1:0:4", "1:1:0:-4", " 1:1:0:4", "1:1:0:4x"}) {
    EXPECT_FALSE(CurveFromText(text).has_value()) << text;
  }
  std::string many;
  for (size_t i = 1; i <= kSizesMax + 1; ++i) many += std::to_string(i) + ":1:0:4,";
  EXPECT_FALSE(CurveFromText(many).has_value());
}

class HistoryTest : public testing::Test {
 protected:
  HistoryFile Open() {
    auto file = HistoryFile::Open(folder_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path() + "/state/paceline";
};

TEST_F(HistoryTest, TheNewestRunsOfAScriptComeFirst) {
  HistoryFile file = Open();
  ASSERT_TRUE(file.Put(Measured("a", 1)).ok());
  ASSERT_TRUE(file.Put(Measured("b", 3)).ok());
  ASSERT_TRUE(file.Put(Measured("c", 2, "other")).ok());
  EXPECT_EQ((std::vector<std::string>{"b", "a"}), RunsOf(file.Newest("s", 8)));
  EXPECT_EQ((std::vector<std::string>{"b"}), RunsOf(file.Newest("s", 1)));
  EXPECT_EQ((std::vector<std::string>{"b", "c", "a"}), RunsOf(file.Newest("", 8)));
  EXPECT_EQ(Measured("b", 3), file.Newest("s", 1)->front());
}

TEST_F(HistoryTest, ARunIsReplacedAndForgotten) {
  HistoryFile file = Open();
  ASSERT_TRUE(file.Put(Measured("a", 1)).ok());
  ASSERT_TRUE(file.Put(Measured("a", 5)).ok());
  EXPECT_EQ(1U, file.Newest("", 8)->size());
  EXPECT_EQ(0U, file.Forget("another").value());
  EXPECT_EQ(1U, file.Forget("train").value());
  EXPECT_TRUE(file.Newest("", 8)->empty());
}

TEST_F(HistoryTest, OldRunsMakeRoom) {
  HistoryFile file = Open();
  for (uint32_t i = 0; i < HistoryFile::kRunsMax + 3; ++i) {
    ASSERT_TRUE(file.Put(Measured("run" + std::to_string(i), i)).ok());
  }
  EXPECT_EQ(HistoryFile::kRunsMax, file.Newest("", 10'000)->size());
  EXPECT_EQ(3, file.Newest("", 10'000)->back().at_ms);
}

TEST_F(HistoryTest, OnlyItsUserMayReadIt) {
  Open();
  struct stat found {};
  ASSERT_EQ(0, ::stat((folder_ + "/history.db").c_str(), &found));
  EXPECT_EQ(0600U, found.st_mode & 0777);
  ASSERT_EQ(0, ::stat(folder_.c_str(), &found));
  EXPECT_EQ(0700U, found.st_mode & 0777);
}

TEST_F(HistoryTest, ADamagedFileOrANewerOneIsAnError) {
  ASSERT_TRUE(MakeDirs(folder_, 0700).ok());
  std::ofstream(folder_ + "/history.db") << std::string(8192, 'x');
  EXPECT_FALSE(HistoryFile::Open(folder_).ok());
  EXPECT_FALSE(HistoryFile::OpenExisting(folder_).ok());
  EXPECT_TRUE(absl::IsNotFound(HistoryFile::OpenExisting(dir_.path()).status()));
}

TEST_F(HistoryTest, TheKeeperReadsAndWritesAndSurvivesADamagedFile) {
  {
    HistoryKeeper keeper(folder_, "s");
    EXPECT_TRUE(keeper.Earlier().empty());
    keeper.Put(Measured("a", 1));
  }
  {
    HistoryKeeper keeper(folder_, "s");
    const std::vector<JobHistory> earlier = keeper.Earlier();
    ASSERT_EQ(1U, earlier.size());
    EXPECT_EQ("a", earlier[0].run);
  }
  std::ofstream(folder_ + "/history.db") << std::string(8192, 'x');
  HistoryKeeper keeper(folder_, "s");
  EXPECT_TRUE(keeper.Earlier().empty());
  keeper.Put(Measured("b", 2));  // goes nowhere
}

TEST_F(HistoryTest, RunsOfTheSameBytesAreAlikeWhereverTheScriptLies) {
  ASSERT_TRUE(MakeDirs(folder_, 0700).ok());
  std::ofstream(folder_ + "/train.py") << "print(1)\n";
  std::ofstream(folder_ + "/copy.py") << "print(1)\n";
  std::ofstream(folder_ + "/other.py") << "print(2)\n";
  const auto signature = [&](const std::string& target, uint32_t ranks = 1) {
    LaunchSpec launch;
    launch.target = target;
    launch.cwd = folder_;
    launch.nproc_per_node = ranks;
    launch.args = {"--lr", target};
    return SignatureOf(launch, "EPYC x 2");
  };
  EXPECT_EQ(32U, signature("train.py").size());
  EXPECT_EQ(signature("train.py"), signature(folder_ + "/copy.py"));
  EXPECT_NE(signature("train.py"), signature("other.py"));
  EXPECT_NE(signature("train.py"), signature("train.py", 2));
}

TEST_F(HistoryTest, AHostIsKnownByItsProcessorsAndGpus) {
  const std::string gpus = dir_.path() + "/proc/driver/nvidia/gpus";
  ASSERT_TRUE(MakeDirs(gpus + "/0000:01:00.0", 0700).ok());
  ASSERT_TRUE(MakeDirs(gpus + "/0000:02:00.0", 0700).ok());
  std::ofstream(dir_.path() + "/proc/cpuinfo")
      << "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n";
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0"}) {
    std::ofstream(gpus + "/" + bus + "/information") << "Model: \t\t NVIDIA H200\nIRQ: 4\n";
  }
  EXPECT_EQ("AMD EPYC x 2, 2 x NVIDIA H200", DeviceOf(dir_.path()));
}

}  // namespace
}  // namespace paceline::master
