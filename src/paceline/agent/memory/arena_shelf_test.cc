#include "paceline/agent/memory/arena_shelf.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

class ArenaShelfTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/arena_shelf_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = name;
    home_ = top_ + "/paceline-1";
  }
  void TearDown() override { std::filesystem::remove_all(top_); }
  absl::Status Prepare() {
    ArenaShelf shelf({.memory = home_ + "/job", .disk = ""}, "job", "boot");
    return shelf.Prepare({"node", 0, false});
  }

  std::string top_;
  std::string home_;
};

TEST_F(ArenaShelfTest, AHomeThatIsNotThereIsMade) {
  EXPECT_EQ(WhatIsWrongWithHome(home_), "");
  EXPECT_TRUE(Prepare().ok());
  EXPECT_EQ(WhatIsWrongWithHome(home_), "");
}

// Found by users (N1): "cannot make directory: no such file" did not name the owner.
TEST_F(ArenaShelfTest, AHomeOfAnotherUserIsNamedAsSuch) {
  ASSERT_EQ(mkdir(home_.c_str(), 0700), 0);
  if (chown(home_.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can give a folder away";
  EXPECT_EQ(Prepare().message(), home_ + " belongs to another user (uid 12345)");
}

// Another user could have stopped every job with a Checkpointer by making this folder.
TEST_F(ArenaShelfTest, WhereAnotherUserHasTheNameAnotherNameIsTaken) {
  const std::string usual = Concat(top_, "/paceline-", geteuid());
  EXPECT_EQ(ArenaHomeIn(top_, /*makes=*/true), usual);
  ASSERT_EQ(mkdir(usual.c_str(), 0700), 0);
  if (chown(usual.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can give a folder away";
  const std::string planted = usual + "-aaaaaa";
  ASSERT_EQ(mkdir(planted.c_str(), 0700), 0);
  ASSERT_EQ(chown(planted.c_str(), 12345, 12345), 0);
  EXPECT_EQ(ArenaHomeIn(top_, /*makes=*/false), usual) << "looking makes nothing";
  const std::string made = ArenaHomeIn(top_, /*makes=*/true);
  EXPECT_TRUE(made.starts_with(usual + "-"));
  EXPECT_NE(made, planted);
  EXPECT_EQ(WhatIsWrongWithHome(made), "");
  EXPECT_EQ(ArenaHomeIn(top_, /*makes=*/true), made) << "all agents of the user find it";
  EXPECT_EQ(ArenaHomeIn(top_, /*makes=*/false), made);
  ASSERT_EQ(rmdir(usual.c_str()), 0);
  EXPECT_EQ(ArenaHomeIn(top_, /*makes=*/true), made) << "a job that runs has its images there";
}

TEST_F(ArenaShelfTest, AHomeThatOthersMayEnterIsRefused) {
  ASSERT_EQ(mkdir(home_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(home_.c_str(), 0755), 0);
  EXPECT_EQ(Prepare().message(), home_ + " can be entered by other users");
}

TEST_F(ArenaShelfTest, AHomeThatIsALinkIsRefused) {
  ASSERT_EQ(mkdir((top_ + "/real").c_str(), 0700), 0);
  ASSERT_EQ(symlink((top_ + "/real").c_str(), home_.c_str()), 0);
  EXPECT_EQ(Prepare().message(), home_ + " is not a directory");
}

// The message had the error of the later check and not of mkdir.
TEST_F(ArenaShelfTest, AHomeThatCannotBeMadeSaysWhy) {
  home_ = "/sys/paceline-1";  // no folder can be made there
  const std::string why(Prepare().message());
  EXPECT_TRUE(why.starts_with("cannot make directory /sys/paceline-1: ")) << why;
  EXPECT_EQ(why.find("No such file"), std::string::npos) << why;
}

}  // namespace
}  // namespace paceline::agent
