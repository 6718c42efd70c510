#include "paceline/cli/job/ray_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

class RayDirTest : public testing::Test {
 protected:
  std::string Make(const std::string& name, const std::string& part, pid_t pid, uint64_t start,
                   mode_t mode = 0700) {
    const std::string path = dir_.path() + "/" + name;
    const nlohmann::json mark = {{"schema", "paceline.ray/1"},
                                 {"job", "train"},
                                 {"part", part},
                                 {"actor", {{"pid", pid}, {"start_time", start}}}};
    EXPECT_TRUE(MakeDirs(path, 0700).ok());
    EXPECT_TRUE(ReplaceFile(path + "/ray.json", PrintJson(mark), 0600).ok());
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  std::vector<RayDir> Found() { return RayDirs({{"TMPDIR", dir_.path()}}); }

  TestDir dir_;
};

TEST_F(RayDirTest, ToldApartByTheirMarkAndTheirActor) {
  Make("paceline-train-a", "node0 1", getpid(), agent::StartTimeOf(getpid()));
  const std::string left =
      Make("paceline-train-b", "adapter", getpid(), agent::StartTimeOf(getpid()) + 1);
  ASSERT_TRUE(MakeDirs(dir_.path() + "/paceline-0", 0700).ok());  // a runtime directory

  const std::vector<RayDir> found = Found();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].is_alive);
  EXPECT_FALSE(found[0].is_adapter());
  EXPECT_EQ(found[0].job, "train");
  EXPECT_EQ(found[1].path, left);
  EXPECT_FALSE(found[1].is_alive) << "another process has the pid now";
  EXPECT_TRUE(found[1].is_adapter());
}

TEST_F(RayDirTest, WhatOthersCanWriteIsNotTrusted) {
  const std::string open = Make("paceline-train-a", "adapter", 1, 1, 0777);
  EXPECT_TRUE(Found().empty());
  const std::string target = Make("elsewhere", "adapter", 1, 1);
  ASSERT_EQ(symlink(target.c_str(), (dir_.path() + "/paceline-train-b").c_str()), 0);
  EXPECT_TRUE(Found().empty());
}

}  // namespace
}  // namespace paceline::cli
