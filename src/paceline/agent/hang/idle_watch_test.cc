#include "paceline/agent/hang/idle_watch.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

ProcessLook Look(int64_t cpu_ms, uint64_t bytes, uint64_t switches = 5) {
  ProcessLook look{.is_there = true, .state = 'S', .cpu = Duration::Milliseconds(cpu_ms)};
  look.bytes = bytes;
  look.switches[7] = switches;
  return look;
}

TEST(IdleWatch, CountsFromTheFirstLook) {
  IdleWatch watch;
  const ProcessId rank{7, 99};
  EXPECT_EQ(Duration(), watch.Note(rank, Look(500, 40), 10 * kSecond));
  EXPECT_EQ(Duration::Seconds(5), watch.Note(rank, Look(500, 40), 15 * kSecond));
  EXPECT_EQ(Duration::Seconds(65), watch.Note(rank, Look(500, 40), 75 * kSecond));
}

TEST(IdleWatch, WorkBetweenTwoLooksBeginsItAnew) {
  const ProcessId rank{7, 99};
  ProcessLook cut_short = Look(500, 40);
  cut_short.is_whole = false;
  ProcessLook with_child = Look(500, 40);
  with_child.switches[9] = 0;
  // Computed, read a byte, a child has ended with its CPU time, not all processes were seen, waited
  // for a server again and again, a child has begun.
  for (const ProcessLook& worked :
       {Look(1000, 40), Look(500, 41), Look(400, 40), cut_short, Look(500, 40, 40), with_child}) {
    IdleWatch watch;
    watch.Note(rank, Look(500, 40), 10 * kSecond);
    EXPECT_EQ(Duration(), watch.Note(rank, worked, 40 * kSecond));
    ProcessLook later = worked;
    later.is_whole = true;
    EXPECT_EQ(Duration::Seconds(2), watch.Note(rank, later, 42 * kSecond));
  }
}

TEST(IdleWatch, ThreadsThatOnlyWakeUpDoNotCount) {
  IdleWatch watch;
  const ProcessId rank{7, 99};
  watch.Note(rank, Look(500, 40), 0);
  EXPECT_EQ(Duration::Seconds(60), watch.Note(rank, Look(900, 40, 30), 60 * kSecond));
  EXPECT_EQ(Duration(), watch.Note(rank, Look(1900, 40, 30), 120 * kSecond));
}

TEST(IdleWatch, AnotherProcessWithThatPidBeginsAnew) {
  IdleWatch watch;
  watch.Note({7, 99}, Look(500, 40), 0);
  EXPECT_EQ(Duration(), watch.Note({7, 100}, Look(500, 40), kSecond));
  EXPECT_EQ(Duration::Seconds(1), watch.Note({7, 100}, Look(500, 40), 2 * kSecond));
  watch.Keep({{8, 1}});
  EXPECT_EQ(Duration(), watch.Note({7, 100}, Look(500, 40), 3 * kSecond));
}

}  // namespace
}  // namespace paceline::agent
