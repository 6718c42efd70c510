#include "paceline/agent/ranks/pids.h"

#include <gtest/gtest.h>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

// Process 7 as shown in /proc; its start time is 500.
struct FakeProcess {
  std::string flags = "4194304";
  std::string private_pending = "0000000000000000";
  std::string shared_pending = "0000000000000000";

  bool IsDyingIn(const TestDir& proc) const {
    EXPECT_TRUE(MakeDirs(proc.path() + "/7", 0700).ok());
    EXPECT_TRUE(
        ReplaceFile(proc.path() + "/7/stat",
                    "7 (a b) c) S 1 7 7 0 -1 " + flags + " 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0\n",
                    0600)
            .ok());
    EXPECT_TRUE(ReplaceFile(proc.path() + "/7/status",
                            "Name:\tx\nSigPnd:\t" + private_pending + "\nShdPnd:\t" +
                                shared_pending + "\nSigBlk:\t0000000000000100\n",
                            0600)
                    .ok());
    EXPECT_TRUE(IsAlive({7, 500}, proc.path()));
    return IsDying({7, 500}, proc.path());
  }
};

TEST(Pids, AProcessThatWasKilledIsDyingBeforeItIsDead) {
  const TestDir proc;
  EXPECT_FALSE(FakeProcess{}.IsDyingIn(proc));
  EXPECT_TRUE(FakeProcess{.shared_pending = "0000000000000100"}.IsDyingIn(proc));
  EXPECT_TRUE(FakeProcess{.private_pending = "0000000000004100"}.IsDyingIn(proc));
  EXPECT_TRUE(FakeProcess{.flags = "4194308"}.IsDyingIn(proc));
  EXPECT_FALSE(FakeProcess{.shared_pending = "0000000000004000"}.IsDyingIn(proc)) << "SIGTERM";
}

TEST(Pids, ANumberUsedAgainIsNotTheProcess) {
  const TestDir proc;
  FakeProcess{}.IsDyingIn(proc);
  EXPECT_FALSE(IsAlive({7, 499}, proc.path()));
  EXPECT_FALSE(IsAlive({8, 500}, proc.path()));
}

}  // namespace
}  // namespace paceline::agent
