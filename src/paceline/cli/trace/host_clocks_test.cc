#include "paceline/cli/trace/host_clocks.h"

#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Hosts whose monotonic clocks began at different times, and whose wall clocks are wrong by
// seconds.
class HostClocksTest : public ::testing::Test {
 protected:
  // `began` is when its monotonic clock was 0, by the first host's wall clock; `wrong` is by how
  // much its own wall clock is ahead of the first one's. It was read at second 1000.
  void AddHost(int64_t began, int64_t wrong = 0) {
    began_.push_back(began);
    hosts_.push_back({Instant::FromNanoseconds(1000 * kSecond + wrong), 1000 * kSecond - began});
  }
  RingSlice& AddRing(size_t host, uint64_t generation = 1) {
    RingSlice& ring = readings_.emplace_back();
    ring.generation = generation;
    rings_.push_back({host, &ring});
    return ring;
  }
  // Collective `sequence` of the group ended then, by the first host's wall clock.
  void End(RingSlice& ring, size_t host, const std::string& group, uint64_t sequence, int64_t at,
           const std::string& operation = "all_reduce") {
    ring.entries.push_back({.kind = FlightKind::kCollective,
                            .group = group,
                            .operation = operation,
                            .sequence = sequence,
                            .begun_ns = 1,
                            .completed_ns = at - began_[host]});
  }
  HostClocks Align() const { return AlignHosts(hosts_, rings_); }

  std::vector<HostNow> hosts_;
  std::vector<int64_t> began_;
  std::deque<RingSlice> readings_;
  std::vector<HostedRing> rings_;
};

TEST_F(HostClocksTest, OneHostKeepsItsClock) {
  AddHost(300 * kSecond);
  EXPECT_EQ(Align().ahead_ns, std::vector<int64_t>{300 * kSecond});
  EXPECT_TRUE(Align().unaligned.empty());
}

TEST_F(HostClocksTest, EndsOfEqualCollectivesReplaceAWrongWallClock) {
  AddHost(300 * kSecond);
  AddHost(700 * kSecond, 5 * kSecond);
  RingSlice& first = AddRing(0);
  RingSlice& second = AddRing(1);
  for (uint64_t i = 1; i <= 101; ++i) {
    const int64_t at = 900 * kSecond + static_cast<int64_t>(i) * kSecond / 10;
    // One of both notices the end up to 100 µs later, and sometimes a second later.
    const int64_t late = static_cast<int64_t>(i % 11) * 10'000;
    End(first, 0, "0 0-1", i, at + (i % 2 == 0 ? late : 0));
    End(second, 1, "0 0-1", i, at + (i % 10 == 0 ? kSecond : i % 2 == 0 ? 0 : late));
  }
  const HostClocks clocks = Align();
  EXPECT_TRUE(clocks.unaligned.empty());
  EXPECT_EQ(clocks.ahead_ns[0], 300 * kSecond);
  EXPECT_NEAR(static_cast<double>(clocks.ahead_ns[1] - 700 * kSecond), 0, 100'000);
}

TEST_F(HostClocksTest, AHostIsReachedThroughAnother) {
  AddHost(300 * kSecond);
  AddHost(700 * kSecond, 5 * kSecond);
  AddHost(100 * kSecond, -7 * kSecond);
  RingSlice& first = AddRing(0);
  RingSlice& middle = AddRing(1);
  RingSlice& last = AddRing(2);
  for (uint64_t i = 1; i <= kEqualsMin; ++i) {
    const int64_t at = 900 * kSecond + static_cast<int64_t>(i);
    End(first, 0, "0 0-1", i, at);
    End(middle, 1, "0 0-1", i, at);
    End(middle, 1, "1 1-2", i, at + kSecond);
    End(last, 2, "1 1-2", i, at + kSecond);
  }
  const HostClocks clocks = Align();
  EXPECT_TRUE(clocks.unaligned.empty());
  EXPECT_EQ(clocks.ahead_ns, (std::vector<int64_t>{300 * kSecond, 700 * kSecond, 100 * kSecond}));
}

TEST_F(HostClocksTest, WhatIsNotEqualIsNotCompared) {
  AddHost(300 * kSecond);
  AddHost(700 * kSecond, 5 * kSecond);
  RingSlice& first = AddRing(0);
  RingSlice& second = AddRing(1);
  RingSlice& older = AddRing(1, 2);
  for (uint64_t i = 1; i <= 50; ++i) {
    const int64_t at = 900 * kSecond + static_cast<int64_t>(i);
    // The root of a broadcast leaves it at once.
    End(first, 0, "0 0-1", i, at, "broadcast");
    End(second, 1, "0 0-1", i, at + kSecond, "broadcast");
    // Another attempt counts from 1 again, and another group has numbers of its own.
    End(first, 0, "1 0-1", i, at);
    End(older, 1, "1 0-1", i, at + kSecond);
    End(second, 1, "2 0-1", i, at + kSecond);
    End(first, 0, "3 0-1", i, at);
    End(second, 1, "3 0-1", i, began_[1]);  // not complete
  }
  const HostClocks clocks = Align();
  EXPECT_EQ(clocks.unaligned, std::vector<size_t>{1});
  EXPECT_EQ(clocks.ahead_ns[1], 705 * kSecond);  // by its own wall clock
}

TEST_F(HostClocksTest, HostsThatTheFirstOneHasNoRanksWithAreComparedWithEachOther) {
  AddHost(300 * kSecond);  // of the master alone
  AddHost(700 * kSecond, 2 * kSecond);
  AddHost(100 * kSecond, -7 * kSecond);
  RingSlice& second = AddRing(1);
  RingSlice& third = AddRing(2);
  for (uint64_t i = 1; i <= kEqualsMin; ++i) {
    const int64_t at = 900 * kSecond + static_cast<int64_t>(i);
    End(second, 1, "0 0-1", i, at);
    End(third, 2, "0 0-1", i, at);
  }
  const HostClocks clocks = Align();
  EXPECT_EQ(clocks.unaligned, std::vector<size_t>{1});
  EXPECT_EQ(clocks.ahead_ns, (std::vector<int64_t>{300 * kSecond, 702 * kSecond, 102 * kSecond}));
}

TEST_F(HostClocksTest, FewCollectivesSayLittle) {
  AddHost(300 * kSecond);
  AddHost(700 * kSecond);
  RingSlice& first = AddRing(0);
  RingSlice& second = AddRing(1);
  for (uint64_t i = 1; i < kEqualsMin; ++i) {
    End(first, 0, "0 0-1", i, 900 * kSecond);
    End(second, 1, "0 0-1", i, 901 * kSecond);
  }
  EXPECT_EQ(Align().unaligned, std::vector<size_t>{1});
}

}  // namespace
}  // namespace paceline::cli
