#include "paceline/agent/hang/ring_desk.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

constexpr Duration kAnyTime = Duration::Seconds(1'000'000'000);

class RingPartsTest : public ::testing::Test {
 protected:
  RingPartsTest() { EXPECT_EQ(0, ::chmod(dir_.path().c_str(), 0700)); }

  // A ring with `count` collectives, which ended now.
  void Write(uint32_t local_rank, int64_t rank, uint64_t generation, uint64_t count,
             int64_t pid = ::getpid()) const {
    WriteTo(rings_.PathOf(local_rank), rank, generation, count, pid);
  }
  static void WriteTo(const std::string& path, int64_t rank, uint64_t generation, uint64_t count,
                      int64_t pid) {
    std::vector<uint64_t> words(kRingBytes / 8);
    FormatRing(std::as_writable_bytes(std::span(words)), generation, rank, pid);
    auto& ring = *reinterpret_cast<RingHeader*>(words.data());
    std::memcpy(NameOf(ring, 1), "all_reduce", 10);
    ring.names_used = 1;
    const int64_t now = MonotonicNs();
    const uint64_t first = count > kRingRecords ? count - kRingRecords : 0;
    for (uint64_t number = first; number < count; ++number) {
      FlightRecord& record = RecordOf(ring, number);
      record.kind = FlightKind::kCollective;
      record.operation = 1;
      record.begun_ns = now;
      record.completed_ns = now;
      record.commit = number + 1;
    }
    ring.begun = count;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(kRingBytes));
  }
  wire::RingPart Read(uint32_t rank, uint64_t generation = 0, uint64_t before = 0,
                      Duration last = kAnyTime) const {
    return ReadRingPart(rings_, {rank, Generation(generation), before, last});
  }

  const TestDir dir_;
  const FlightRings rings_{{dir_.path() + "/job", "node0", "mark"}};
};

TEST_F(RingPartsTest, GoesThroughTheNodesRanks) {
  Write(0, 7, 2, 3);
  Write(1, 4, 2, 1, 1 << 30);
  // Of an earlier incarnation of the node, in another run directory.
  WriteTo(dir_.path() + "/job/node0/rank-0.other.ring", 5, 2, 1, 1);
  const wire::RingPart first = Read(0);
  EXPECT_TRUE(first.has_ring && first.has_more);
  EXPECT_EQ(first.slice.rank, 4);
  EXPECT_FALSE(first.slice.is_alive);
  EXPECT_FALSE(first.boot_id.empty());
  EXPECT_GT(first.now.wall.nanoseconds(), first.now.monotonic_ns);
  const wire::RingPart second = Read(5);
  EXPECT_TRUE(second.has_ring && !second.has_more);
  EXPECT_EQ(second.slice.rank, 7);
  EXPECT_TRUE(second.slice.is_alive);
  EXPECT_EQ(second.slice.entries.size(), 3u);
  EXPECT_FALSE(Read(8).has_ring);
}

TEST_F(RingPartsTest, OfTwoRingsOfARankTheNewestIsRead) {
  Write(0, 4, 9, 3);
  Write(1, 4, 2, 1);
  EXPECT_EQ(Read(0).slice.generation, 9u);
  EXPECT_FALSE(Read(0).has_more);
}

TEST_F(RingPartsTest, ALongRingComesInPartsThatEndWithTheOldest) {
  Write(0, 4, 2, kRingRecords + 5);
  uint64_t before = 0;
  size_t parts = 0;
  size_t records = 0;
  for (bool has_older = true; has_older; ++parts) {
    const RingSlice slice = Read(4, 2, before).slice;
    ASSERT_FALSE(slice.entries.empty());
    EXPECT_TRUE(before == 0 || slice.entries.back().number + 1 == before);
    before = slice.entries.front().number;
    records += slice.entries.size();
    has_older = slice.has_older;
  }
  EXPECT_EQ(parts, kRingRecords / kRingSliceMax);
  EXPECT_EQ(records, kRingRecords);
  EXPECT_EQ(before, 5u);
  EXPECT_GT(Read(4).slice.whole_from_ns, 0);
}

TEST_F(RingPartsTest, TheNumberOfAnotherWorldsRecordSaysNothing) {
  Write(0, 4, 3, 10);
  EXPECT_EQ(Read(4, 3, 6).slice.entries.size(), 6u);
  EXPECT_EQ(Read(4, 2, 6).slice.entries.size(), 10u);
  // Nor does that of another rank.
  EXPECT_EQ(Read(3, 3, 6).slice.entries.size(), 10u);
}

TEST_F(RingPartsTest, WhatEndedBeforeIsLeftOut) {
  Write(0, 4, 3, 10);
  ::usleep(2000);
  EXPECT_TRUE(Read(4, 0, 0, Duration::Milliseconds(1)).slice.entries.empty());
}

TEST_F(RingPartsTest, QuestionsAreAnsweredInTheirOrder) {
  Write(0, 4, 3, 10);
  const auto reactor = *Reactor::Create();
  std::vector<uint64_t> answered;
  RingDesk desk(*reactor, rings_, [&](const wire::RingPiece& piece) {
    const auto part = wire::DecodeRingPart(piece.content);
    EXPECT_TRUE(part.ok() && part->slice.entries.size() == 10);
    answered.push_back(piece.id);
    if (answered.size() == 3) reactor->Stop();
  });
  for (uint64_t id = 1; id <= 3; ++id) desk.Ask({id, {.rank = 4, .last = kAnyTime}});
  reactor->Run();
  EXPECT_EQ(answered, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(RingPartsTest, QuestionsThatNobodyAnswersInTimeAreBounded) {
  const auto reactor = *Reactor::Create();
  size_t answered = 0;
  RingDesk desk(*reactor, rings_, [&](const wire::RingPiece&) {
    // One is being read while the others wait.
    if (++answered == RingDesk::kWaitingMax + 1)
      reactor->CallAt(MonotonicNs() + 1, [&] { reactor->Stop(); });
  });
  for (uint64_t id = 0; id < 2 * RingDesk::kWaitingMax; ++id) desk.Ask({id, {}});
  reactor->Run();
  EXPECT_EQ(answered, RingDesk::kWaitingMax + 1);
}

}  // namespace
}  // namespace paceline::agent
