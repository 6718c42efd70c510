#include "paceline/agent/ranks/kernel_evidence.h"

#include <gtest/gtest.h>

#include <fstream>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

void Write(const std::string& path, const std::string& text) {
  ASSERT_TRUE(MakeDirs(path.substr(0, path.rfind('/')), 0700).ok());
  ASSERT_TRUE(ReplaceFile(path, text, 0600).ok());
}

TEST(KernelEvidenceTest, ReadsTheCounterOfVersionTwo) {
  const TestDir dir;
  Write(dir.path() + "/proc/self/cgroup", "0::/user/job\n");
  const std::string counter = dir.path() + "/sys/fs/cgroup/user/job/memory.events";
  Write(counter, "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n");
  KernelEvidence evidence(dir.path() + "/");
  EXPECT_FALSE(evidence.TookOomKill());
  Write(counter, "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n");
  EXPECT_TRUE(evidence.TookOomKill());
  EXPECT_FALSE(evidence.TookOomKill());
}

TEST(KernelEvidenceTest, ReadsTheCounterOfVersionOne) {
  const TestDir dir;
  Write(dir.path() + "/proc/self/cgroup", "4:cpu:/\n3:memory:/job\n0::/\n");
  const std::string counter = dir.path() + "/sys/fs/cgroup/memory/job/memory.oom_control";
  Write(counter, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  KernelEvidence evidence(dir.path() + "/");
  Write(counter, "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_TRUE(evidence.TookOomKill());
}

TEST(KernelEvidenceTest, ARankMayBeInAnotherGroupThanTheAgent) {
  const TestDir dir;
  Write(dir.path() + "/proc/self/cgroup", "0::/agent\n");
  Write(dir.path() + "/sys/fs/cgroup/agent/memory.events", "oom_kill 0\n");
  Write(dir.path() + "/proc/41/cgroup", "0::/ranks\n");
  const std::string counter = dir.path() + "/sys/fs/cgroup/ranks/memory.events";
  Write(counter, "oom_kill 5\n");
  KernelEvidence evidence(dir.path() + "/");
  evidence.Watch(41);
  evidence.Watch(41);
  evidence.Watch(42);  // it has ended
  EXPECT_FALSE(evidence.TookOomKill()) << "of earlier ranks";
  Write(counter, "oom_kill 6\n");
  EXPECT_TRUE(evidence.TookOomKill());
  EXPECT_FALSE(evidence.TookOomKill());
}

TEST(KernelEvidenceTest, WithoutACounterNothingIsClaimed) {
  const TestDir dir;
  Write(dir.path() + "/proc/self/cgroup", "garbage\n:\n1:memory\n");
  KernelEvidence evidence(dir.path() + "/");
  EXPECT_FALSE(evidence.TookOomKill());
  EXPECT_EQ(evidence.LineAbout(4711), "");
}

TEST(KernelEvidenceTest, ALineBlamesOnlyTheFirstProcessWithItsPid) {
  const TestDir dir;
  Write(dir.path() + "/dev/kmsg", "3,1,1,-;Out of memory: Killed process 41 (old)\n");
  KernelEvidence evidence(dir.path() + "/");
  std::ofstream(dir.path() + "/dev/kmsg", std::ios::app)
      << "3,2,2,-;Out of memory: Killed process 42 (python)\n"
      << "6,3,3,-;python[43]: segfault at 0\n"
      << "6,4,4,-;traps: python[43]: error 4\n";
  EXPECT_EQ(evidence.LineAbout(41), "") << "before this agent";
  EXPECT_EQ(evidence.LineAbout(42), "Out of memory: Killed process 42 (python)");
  EXPECT_EQ(evidence.LineAbout(42), "") << "a later process";
  EXPECT_EQ(evidence.LineAbout(43), "traps: python[43]: error 4");
  EXPECT_EQ(evidence.LineAbout(43), "");
}

TEST(KernelEvidenceTest, RecentLinesAreThoseOfTheLastMinutes) {
  const TestDir dir;
  Write(dir.path() + "/dev/kmsg", "3,1,900000000,-;before this agent\n");
  KernelEvidence evidence(dir.path() + "/");
  std::ofstream(dir.path() + "/dev/kmsg", std::ios::app)
      << "4,2,800000000,-;too long ago\n"
      << "3,3,950000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=9\n SUBSYSTEM=pci\n"
      << "no prefix\n4,x,y,-;no time\n"
      << "6,4,990000000,-;Out of memory: Killed process 42 (python)\n";
  EXPECT_NE(evidence.LineAbout(42), "");
  const std::string xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=9\n";
  EXPECT_EQ(evidence.RecentLines(1'000'000'000), xid);
  EXPECT_EQ(evidence.RecentLines(1'000'000'000), xid) << "another rank may have died of it";
}

}  // namespace
}  // namespace paceline::agent
