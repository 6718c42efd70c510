#include "paceline/agent/ranks/memory_watch.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

// A host with files of /proc and /sys, in which the test plays the kernel.
class MemoryWatchTest : public testing::Test {
 protected:
  MemoryWatchTest() {
    Write("proc/self/cgroup", "3:memory:/job\n");
    Write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill 0\n");
  }
  void Write(const std::string& path, const std::string& text) const {
    const std::string whole = root() + path;
    ASSERT_TRUE(MakeDirs(whole.substr(0, whole.rfind('/')), 0700).ok());
    ASSERT_TRUE(ReplaceFile(whole, text, 0600).ok());
  }
  // The files that the kernel makes in a new group.
  void MakeGroup(const std::string& limit) const {
    Write(kGroup + "/memory.limit_in_bytes", limit);
    Write(kGroup + "/memory.oom_control", "oom_kill 0\n");
    Write(kGroup + "/memory.failcnt", "0\n");
    Write(kGroup + "/memory.stat", "total_cache 0\n");
    Use(100);
  }
  void Use(uint64_t bytes) const {
    Write(kGroup + "/memory.usage_in_bytes", std::to_string(bytes));
  }
  std::string root() const { return dir_.path() + "/"; }
  std::string Limit() const { return ReadText(root() + kGroup + "/memory.limit_in_bytes", 64); }
  MemoryWatch::Setup setup(uint64_t limit) const { return {"j", "n1", limit, root()}; }

  const std::string kGroup = "sys/fs/cgroup/memory/job/paceline-j-n1";

 private:
  TestDir dir_;
};

TEST_F(MemoryWatchTest, AGroupGetsTheLimitAndIsOnlyRaised) {
  MakeGroup("9223372036854771712");
  MemoryWatch watch(setup(1000));
  ASSERT_TRUE(watch.group().has_value());
  EXPECT_EQ(watch.DoorOfGroup(), root() + kGroup + "/cgroup.procs");
  EXPECT_EQ(Limit().substr(0, 4), "1000");
  Write(kGroup + "/memory.limit_in_bytes", "1000");
  EXPECT_EQ(watch.TakeNews(1, {}), (NodeMemory{100, 1000, MemoryBound::kNode}));
  watch.Raise(500);
  EXPECT_EQ(Limit(), "1000");
  watch.Raise(2000);
  EXPECT_EQ(Limit(), "2000");
  EXPECT_EQ(watch.TakeNews(2, {}), (NodeMemory{100, 2000, MemoryBound::kNode})) << "at once";
}

TEST_F(MemoryWatchTest, AnotherAgentKeepsTheLimitThatWasRaised) {
  MakeGroup("5000");
  const MemoryWatch watch(setup(1000));
  EXPECT_EQ(Limit(), "5000");
}

TEST_F(MemoryWatchTest, OnlyNewsIsTold) {
  MakeGroup("1000");
  MemoryWatch watch(setup(1000));
  EXPECT_TRUE(watch.TakeNews(1, {}).has_value());
  Use(900);
  EXPECT_FALSE(watch.TakeNews(2, {}).has_value()) << "a second has not passed";
  const int64_t later = 1 + MemoryWatch::kEveryNs;
  EXPECT_EQ(watch.TakeNews(later, {}), (NodeMemory{900, 1000, MemoryBound::kNode}));
  Use(901);
  EXPECT_FALSE(watch.TakeNews(later + MemoryWatch::kEveryNs, {}).has_value());
  EXPECT_TRUE(watch.TakeNews(later + MemoryWatch::kTellEveryNs, {}).has_value());
}

TEST_F(MemoryWatchTest, AKillIsOfTheLimitOnlyIfItWasReached) {
  MakeGroup("1000");
  MemoryWatch watch(setup(1000));
  Write(kGroup + "/memory.oom_control", "oom_kill 1\n");
  EXPECT_EQ(watch.TakeLimitOfKill(), 0U) << "of a host without memory";
  Write(kGroup + "/memory.oom_control", "oom_kill 2\n");
  Write(kGroup + "/memory.failcnt", "17\n");
  EXPECT_EQ(watch.TakeLimitOfKill(), 1000U);
  EXPECT_EQ(watch.TakeLimitOfKill(), 0U);
}

TEST_F(MemoryWatchTest, WithoutAGroupTheLimitIsOnlyTold) {
  MemoryWatch watch(setup(8192));  // the new folder has no file of a limit
  EXPECT_FALSE(watch.group().has_value());
  EXPECT_EQ(watch.DoorOfGroup(), "");
  EXPECT_NE(::access((root() + kGroup).c_str(), F_OK), 0) << "nothing is left behind";
  EXPECT_FALSE(watch.TakeNews(1, {}).has_value()) << "no rank lives";
  Write("proc/41/status",
        "Name:\tpython\nRssAnon:\t       3 kB\nRssShmem:\t 1 kB\nRssFile:\t9 kB\n");
  Write("proc/42/status", "RssAnon:\t       2 kB\n");
  EXPECT_EQ(watch.TakeNews(MemoryWatch::kEveryNs * 2, {41, 42}),
            (NodeMemory{6144, 8192, MemoryBound::kTold}));
}

TEST_F(MemoryWatchTest, WithoutASettingTheTighterOfHostAndGroupCounts) {
  Write("proc/meminfo", "MemTotal:       100 kB\nMemFree: 1 kB\nMemAvailable:    40 kB\n");
  Write("proc/41/cgroup", "3:memory:/job\n");
  const std::string job = "sys/fs/cgroup/memory/job";
  Write(job + "/memory.limit_in_bytes", "9223372036854771712");
  Write(job + "/memory.usage_in_bytes", "20480");
  MemoryWatch watch(setup(0));
  EXPECT_EQ(watch.TakeNews(1, {41}), (NodeMemory{61'440, 102'400, MemoryBound::kHost}));
  Write(job + "/memory.limit_in_bytes", "30720");
  EXPECT_EQ(watch.TakeNews(MemoryWatch::kEveryNs * 2, {41}),
            (NodeMemory{20'480, 30'720, MemoryBound::kGroup}));
}

}  // namespace
}  // namespace paceline::agent
