#include "paceline/model/flight_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace paceline {
namespace {

// Memory as mmap gives it: zeroed, aligned to a page.
class Ring {
 public:
  Ring() : blocks_(kRingBytes / sizeof(Block)) { FormatRing(bytes(), 3, 5, 77); }

  std::span<std::byte> bytes() {
    return {reinterpret_cast<std::byte*>(blocks_.data()), blocks_.size() * sizeof(Block)};
  }
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(bytes().data()); }

  void SetName(uint32_t name, std::string_view text) {
    std::memcpy(NameOf(header(), name), text.data(), text.size());
    header().names_used = std::max<uint64_t>(header().names_used, name);
  }
  FlightRecord& Write(uint64_t number) {
    FlightRecord& record = RecordOf(header(), number);
    record.kind = FlightKind::kCollective;
    record.group = 1;
    record.operation = 2;
    record.sequence = number + 1;
    record.commit = number + 1;
    header().begun = std::max<uint64_t>(header().begun, number + 1);
    return record;
  }
  FlightReading Read() {
    std::string_view why;
    const auto reading = ReadRing(bytes(), &why);
    EXPECT_TRUE(reading.has_value()) << why;
    return reading.value_or(FlightReading());
  }

 private:
  struct alignas(64) Block {
    std::byte bytes[64] = {};
  };
  std::vector<Block> blocks_;
};

TEST(FlightRing, BeginsWithItsMagicBytesAndIsEmpty) {
  Ring ring;
  EXPECT_EQ(0, std::memcmp(ring.bytes().data(), "PLRING1\0", 8));
  const FlightReading reading = ring.Read();
  EXPECT_EQ(3u, reading.pulse.generation);
  EXPECT_EQ(5, reading.pulse.rank);
  EXPECT_EQ(77, reading.writer_pid);
  EXPECT_TRUE(reading.entries.empty());
}

TEST(FlightRing, TellsItsRecordsOldestFirstWithTheirNames) {
  Ring ring;
  ring.SetName(1, "0 0-3");
  ring.SetName(2, "all_reduce");
  ring.Write(0).completed_ns = 9;
  ring.Write(1);
  const FlightReading reading = ring.Read();
  ASSERT_EQ(2u, reading.entries.size());
  EXPECT_EQ("0 0-3", reading.entries[0].group);
  EXPECT_EQ("all_reduce", reading.entries[0].operation);
  EXPECT_TRUE(reading.entries[0].is_complete());
  EXPECT_EQ(2u, reading.entries[1].sequence);
  EXPECT_FALSE(reading.entries[1].is_complete());
}

TEST(FlightRing, KeepsTheNewestRecordsWhenItIsFull) {
  Ring ring;
  for (uint64_t number = 0; number < kRingRecords + 10; ++number) ring.Write(number);
  const FlightReading reading = ring.Read();
  ASSERT_EQ(size_t{kRingRecords}, reading.entries.size());
  EXPECT_EQ(10u, reading.entries.front().number);
  EXPECT_EQ(uint64_t{kRingRecords} + 9, reading.entries.back().number);
}

TEST(FlightRing, LeavesOutARecordThatIsBeingWritten) {
  Ring ring;
  ring.Write(0);
  ring.Write(1).commit = 0;
  ring.Write(2);
  const FlightReading reading = ring.Read();
  ASSERT_EQ(2u, reading.entries.size());
  EXPECT_EQ(2u, reading.entries[1].number);
}

TEST(FlightRing, RefusesWhatIsNoRingOfThisVersion) {
  std::string_view why;
  EXPECT_FALSE(ReadRing({}, &why).has_value());
  EXPECT_EQ("the file is shorter than a flight ring", why);
  Ring other;
  other.header().version = 2;
  EXPECT_FALSE(ReadRing(other.bytes(), &why).has_value());
  EXPECT_EQ("the ring has another version", why);
  Ring layout;
  layout.header().record_count = 1 << 30;
  EXPECT_FALSE(ReadRing(layout.bytes(), &why).has_value());
  EXPECT_EQ("the ring has another layout", why);
  Ring none;
  none.header().magic = 0;
  EXPECT_FALSE(ReadRing(none.bytes(), &why).has_value());
  EXPECT_EQ("this is not a flight ring", why);
}

TEST(FlightRing, ItsPulseSaysWhatTheRankDoesNow) {
  Ring ring;
  ring.header().phase = RankPhase::kBackward;
  ring.header().phase_since_ns = 40;
  ring.header().last_event_ns = 50;
  ring.header().open = 1;
  ring.header().longest_ns[1] = 7;
  ring.header().step_times[StepTimeBucket(1'000'000)] = 20;
  const auto pulse = ReadPulse(ring.bytes().subspan(0, kRingHeaderBytes), nullptr);
  ASSERT_TRUE(pulse.has_value());
  EXPECT_EQ("backward", PhaseName(pulse->phase));
  EXPECT_EQ(40, pulse->phase_since_ns);
  EXPECT_EQ(50, pulse->last_event_ns);
  EXPECT_EQ(1u, pulse->open);
  EXPECT_EQ(7, pulse->longest_ns[1]);
  EXPECT_GT(pulse->step_p99_ns, 1'000'000);
  ring.header().phase = static_cast<RankPhase>(1000);
  EXPECT_EQ("unknown", PhaseName(ReadPulse(ring.bytes(), nullptr)->phase));
}

TEST(FlightRing, AStepTimeLiesInItsBucketAndTheP99IsNeverBelowIt) {
  for (int64_t time = 1; time < (int64_t{1} << 46); time = time * 5 / 3 + 1) {
    std::array<uint32_t, kStepTimeBuckets> counts{};
    counts[StepTimeBucket(time)] = 200;
    EXPECT_GE(StepTimeP99(counts), time);
    EXPECT_LE(StepTimeP99(counts), std::max<int64_t>(time * 3 / 2, 1 << 17)) << time;
  }
}

TEST(FlightRing, TheP99LeavesOutOneStepOfAHundred) {
  std::array<uint32_t, kStepTimeBuckets> counts{};
  EXPECT_EQ(0, StepTimeP99(counts));
  counts[StepTimeBucket(100'000'000)] = 99;
  counts[StepTimeBucket(60'000'000'000)] = 1;
  EXPECT_LE(StepTimeP99(counts), 150'000'000);
  counts[StepTimeBucket(60'000'000'000)] = 2;
  EXPECT_GE(StepTimeP99(counts), 60'000'000'000);
}

TEST(FlightRing, BelievesNoNumberAndNoText) {
  Ring ring;
  ring.SetName(1, "a\x1b[2Jb");
  ring.header().names_used = ~uint64_t{0};
  ring.Write(0).operation = 4'000'000'000;
  ring.Write(1).kind = static_cast<FlightKind>(99);
  const FlightReading reading = ring.Read();
  ASSERT_EQ(1u, reading.entries.size());
  EXPECT_EQ("a", reading.entries[0].group);
  EXPECT_EQ("", reading.entries[0].operation);
  ring.header().begun = ~uint64_t{0};  // more than were written
  EXPECT_TRUE(ring.Read().entries.empty());
}

TEST(FlightRing, SumsThatAreBeingWrittenOrCannotBeAreNone) {
  Ring ring;
  ring.header().steps = 7;
  ring.header().whole_ns = 700;
  ring.header().own_ns = 500;
  ring.header().sums_begun = 2;
  ring.header().sums_commit = 1;
  EXPECT_EQ(StepSums(), ring.Read().pulse.sums);
  ring.header().sums_commit = 2;
  EXPECT_EQ(7u, ring.Read().pulse.sums.steps);
  EXPECT_EQ(Duration::Nanoseconds(500), ring.Read().pulse.sums.own);
  ring.header().own_ns = -1;
  EXPECT_EQ(StepSums(), ring.Read().pulse.sums);
}

TEST(FlightRing, TellsTheTimeOfThePhasesThatHaveEnded) {
  Ring ring;
  EXPECT_FALSE(ring.Read().pulse.spent.has_value()) << "an older release counts none";
  RingHeader& header = ring.header();
  header.spent_since_ns = 1000;
  header.phase_since_ns = 1600;
  header.spent_ns[static_cast<size_t>(RankPhase::kStart)] = 200;
  header.spent_ns[static_cast<size_t>(RankPhase::kData)] = 400;
  header.spent_ns[kSpentWaiting] = 50;
  const auto spent = ring.Read().pulse.spent;
  ASSERT_TRUE(spent.has_value());
  EXPECT_EQ(spent->of[static_cast<size_t>(RankPhase::kData)], Duration::Nanoseconds(400));
  EXPECT_EQ(spent->waited, Duration::Nanoseconds(50));
}

// The rank has begun a phase and not yet added the one before; or a broken script wrote there.
TEST(FlightRing, TimesThatDoNotAddUpAreNone) {
  Ring ring;
  RingHeader& header = ring.header();
  header.spent_since_ns = 1000;
  header.phase_since_ns = 1600;
  header.spent_ns[0] = 599;
  EXPECT_FALSE(ring.Read().pulse.spent.has_value());
  header.spent_ns[0] = 601;
  EXPECT_FALSE(ring.Read().pulse.spent.has_value());
  header.spent_ns[0] = -1;
  header.spent_ns[1] = 601;
  EXPECT_FALSE(ring.Read().pulse.spent.has_value());
  header.spent_ns[0] = 0;
  header.spent_ns[1] = 600;
  EXPECT_TRUE(ring.Read().pulse.spent.has_value());
  header.spent_ns[kSpentWaiting] = -1;
  EXPECT_FALSE(ring.Read().pulse.spent.has_value());
}

}  // namespace
}  // namespace paceline
