#include "paceline/cli/job/run_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

class RunDirTest : public testing::Test {
 protected:
  // As in a container: a current directory that cannot be written, and no home unless one is given.
  Result<RunDir> Open(Environment environment) const {
    environment["TMPDIR"] = dir_.path();
    return OpenRunDir({.job_id = "job", .cwd = "/", .is_cwd_writable = false}, environment);
  }
  std::string Usual() const { return Concat(dir_.path(), "/paceline-runs-", geteuid()); }

  TestDir dir_;
};

TEST_F(RunDirTest, AHomeIsTakenWhereTheCurrentDirectoryCannotBeWritten) {
  const auto run = Open({{"HOME", dir_.path() + "/home"}});
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->path, dir_.path() + "/home/.local/state/paceline/runs/job");
  EXPECT_FALSE(run->is_temporary);
}

TEST_F(RunDirTest, WithoutAHomeItIsAPrivateDirectoryThatARebootLoses) {
  ASSERT_TRUE(ReplaceFile(dir_.path() + "/file", "", 0600).ok());
  for (const Environment& environment :
       {Environment{}, Environment{{"HOME", dir_.path() + "/file/home"}}}) {
    const auto run = Open(environment);
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->path, Usual() + "/job");
    EXPECT_TRUE(run->is_temporary);
    struct stat found {};
    ASSERT_EQ(lstat(Usual().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u);
  }
}

TEST_F(RunDirTest, ANameThatOthersMayEnterIsNotTaken) {
  ASSERT_EQ(mkdir(Usual().c_str(), 0700), 0);
  ASSERT_EQ(chmod(Usual().c_str(), 0777), 0);
  const auto run = Open({});
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->path.starts_with(Usual() + "-")) << run->path;
}

TEST_F(RunDirTest, AResumeThatFindsNothingSaysHowToResume) {
  const auto run = OpenRunDir({.wanted = "typo", .cwd = dir_.path(), .resume = true}, {});
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.problem().fix.find("--resume"), std::string::npos) << "a new job begins at step 0";
}

TEST_F(RunDirTest, AResumeFollowsNoLinkOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root can make another user's link";
  const std::string run = dir_.path() + "/real/run";
  ASSERT_TRUE(MakeDirs(run + "/logs", 0700).ok());
  ASSERT_TRUE(ReplaceFile(run + "/job.json", "{}", 0600).ok());
  const std::string link = dir_.path() + "/link";
  ASSERT_EQ(symlink("real", link.c_str()), 0);
  const RunDirRequest request{.wanted = link + "/run", .cwd = "/", .resume = true};
  EXPECT_TRUE(OpenRunDir(request, {}).ok()) << "an own link";
  ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
  const auto through = OpenRunDir(request, {});
  ASSERT_FALSE(through.ok());
  EXPECT_EQ(through.problem().code, "PL-E021");
  EXPECT_NE(through.problem().why.find(link), std::string::npos) << through.problem().why;
  // Or the run directory is one's own, and holds what another user can exchange.
  ASSERT_EQ(lchown((run + "/logs").c_str(), 12345, 12345), 0);
  const auto inside = OpenRunDir({.wanted = run, .cwd = "/", .resume = true}, {});
  ASSERT_FALSE(inside.ok());
  EXPECT_NE(inside.problem().why.find("/logs"), std::string::npos) << inside.problem().why;
}

}  // namespace
}  // namespace paceline::cli
