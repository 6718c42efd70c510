#include "paceline/agent/starter/starter_key.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <string>

#include "gtest/gtest.h"

namespace paceline::agent {
namespace {

std::string Key() {
  LaunchSpec launch;
  launch.python = "/usr/bin/python3";
  launch.target = "train.py";
  launch.cwd = "/somewhere";
  return StarterKey(launch, {});
}

TEST(StarterKeyTest, IsTheSameInTheSameSurroundings) { EXPECT_EQ(Key(), Key()); }

TEST(StarterKeyTest, DiffersUnderAnotherUmask) {
  const std::string before = Key();
  const mode_t mask = ::umask(0137);
  const std::string under = Key();
  ::umask(mask);
  EXPECT_NE(under, before);
  EXPECT_EQ(Key(), before);
}

// A job under `ulimit -n` got a starter, and so ranks, with the limit of the job before it.
TEST(StarterKeyTest, DiffersUnderAnotherLimit) {
  const std::string before = Key();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit lower{limit.rlim_cur - 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  const std::string under = Key();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_NE(under, before);
  EXPECT_EQ(Key(), before);
}

TEST(StarterKeyTest, DiffersOnOtherProcessors) {
  cpu_set_t all{};
  ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "ONE PROCESSOR ONLY";
  const std::string before = Key();
  cpu_set_t fewer = all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_CLR(cpu, &fewer);
    break;
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(fewer), &fewer), 0);
  const std::string under = Key();
  ASSERT_EQ(::sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_NE(under, before);
}

}  // namespace
}  // namespace paceline::agent
