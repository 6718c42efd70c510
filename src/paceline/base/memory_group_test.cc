#include "paceline/base/memory_group.h"

#include <gtest/gtest.h>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline {
namespace {

// A tree of /proc and /sys with groups.
class MemoryGroupTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const std::string whole = root() + path;
    ASSERT_TRUE(MakeDirs(whole.substr(0, whole.rfind('/')), 0700).ok());
    ASSERT_TRUE(ReplaceFile(whole, text, 0600).ok());
  }
  // A group of version 2.
  void Make(const std::string& group, const std::string& limit, uint64_t current,
            const std::string& stat) const {
    Write("sys/fs/cgroup" + group + "/memory.events", "oom 0\noom_kill 0\n");
    Write("sys/fs/cgroup" + group + "/memory.max", limit + "\n");
    Write("sys/fs/cgroup" + group + "/memory.current", std::to_string(current) + "\n");
    Write("sys/fs/cgroup" + group + "/memory.stat", stat);
  }
  std::string root() const { return dir_.path() + "/"; }

 private:
  TestDir dir_;
};

TEST_F(MemoryGroupTest, VersionTwoCountsFilesInMemoryAndNoOtherFiles) {
  Make("/job", "1000", 700, "anon 300\nfile 400\nshmem 150\nfile_mapped 9\n");
  const auto group = MemoryGroup::Of("0::/job\n", root());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->Used(), 450U);
  EXPECT_EQ(group->Limit(), 1000U);
  EXPECT_EQ(group->Tightest(), (MemoryGroup::Bound{450, 1000}));
  EXPECT_EQ(group->KillCount(), 0U);
}

TEST_F(MemoryGroupTest, TheBoundIsTheGroupWithTheLeastRoom) {
  Make("/a", "2000", 1900, "file 0\nshmem 0\n");
  Make("/a/b", "max", 500, "file 0\nshmem 0\n");
  Make("/a/b/c", "1000", 400, "file 0\nshmem 0\n");
  const auto group = MemoryGroup::Of("0::/a/b/c\n", root());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->Tightest(), (MemoryGroup::Bound{1900, 2000}));
  EXPECT_EQ(group->At(root() + "sys/fs/cgroup/a/b").Limit(), std::nullopt);
}

TEST_F(MemoryGroupTest, VersionOneHasALargeNumberForNoLimit) {
  const std::string job = "sys/fs/cgroup/memory/job";
  Write(job + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  Write(job + "/memory.limit_in_bytes", "9223372036854771712\n");
  Write(job + "/memory.usage_in_bytes", "900\n");
  Write(job + "/memory.stat", "cache 1\nshmem 1\ntotal_cache 500\ntotal_shmem 200\n");
  Write(job + "/memory.failcnt", "7\n");
  const auto group = MemoryGroup::Of("4:cpu:/\n3:memory:/job\n0::/\n", root());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->Limit(), std::nullopt);
  EXPECT_EQ(group->Tightest(), std::nullopt);
  EXPECT_EQ(group->Used(), 600U);
  EXPECT_EQ(group->KillCount(), 3U);
  EXPECT_EQ(group->HitCount(), 7U);
  EXPECT_TRUE(group->SetLimit(800));
  Write(job + "/memory.limit_in_bytes", "800\n");
  EXPECT_EQ(group->Tightest(), (MemoryGroup::Bound{600, 800}));
}

TEST_F(MemoryGroupTest, InAContainerTheMountPointIsTheGroup) {
  Write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024\n");
  const auto group = MemoryGroup::Of("3:memory:/docker/0123\n", root());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->Tightest(), (MemoryGroup::Bound{1024, 4096}));
}

TEST_F(MemoryGroupTest, NothingIsClaimedWithoutGroups) {
  EXPECT_FALSE(
      MemoryGroup::Of("garbage\n:\n1:memory\n2:memory:job\n0::/job\n", root()).has_value());
  EXPECT_FALSE(MemoryGroup::OfProcess(1, root()).has_value());
  Write("proc/self/cgroup", "0::/job\n");
  Make("/job", "max", 5, "");
  const auto group = MemoryGroup::OfProcess(0, root());
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->folder(), root() + "sys/fs/cgroup/job");
  EXPECT_EQ(group->Used(), 5U);
}

}  // namespace
}  // namespace paceline
