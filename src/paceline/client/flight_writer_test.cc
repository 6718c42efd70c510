#include "paceline/client/flight_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "paceline/base/test_dir.h"
#include "paceline/client/page_file.h"

namespace paceline::client {
namespace {

class FlightWriterTest : public testing::Test {
 protected:
  std::unique_ptr<FlightWriter> Make() {
    auto writer = FlightWriter::Make({.path = path_, .generation = 4, .rank = 2});
    EXPECT_TRUE(writer.ok()) << writer.failure().message;
    return std::move(*writer);
  }
  FlightReading Read() {
    std::ifstream file(path_, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
    std::vector<uint64_t> aligned(text.size() / 8 + 1);
    std::memcpy(aligned.data(), text.data(), text.size());
    std::string_view why;
    const auto reading = ReadRing(std::as_bytes(std::span(aligned)).subspan(0, text.size()), &why);
    EXPECT_TRUE(reading.has_value()) << why;
    return reading.value_or(FlightReading());
  }

  const TestDir dir_;
  const std::string path_ = dir_.path() + "/ring";
};

TEST_F(FlightWriterTest, WhatItBeganAndCompletedCanBeRead) {
  const auto writer = Make();
  const FlightEvent event{.group = writer->Name("0 0-3"),
                          .operation = writer->Name("all_reduce"),
                          .dtype = writer->Name("float32"),
                          .site = writer->Name("train.py:44"),
                          .sequence = 188,
                          .bytes = 4096};
  const uint64_t first = writer->Begin(event);
  writer->Begin(event);
  writer->Complete(first);
  const FlightReading reading = Read();
  EXPECT_EQ(4u, reading.pulse.generation);
  EXPECT_EQ(2, reading.pulse.rank);
  EXPECT_EQ(1u, reading.pulse.open);
  ASSERT_EQ(2u, reading.entries.size());
  EXPECT_EQ("0 0-3", reading.entries[0].group);
  EXPECT_EQ("float32", reading.entries[0].dtype);
  EXPECT_EQ("train.py:44", reading.entries[0].site);
  EXPECT_EQ(188u, reading.entries[0].sequence);
  EXPECT_EQ(4096u, reading.entries[0].bytes);
  EXPECT_TRUE(reading.entries[0].is_complete());
  EXPECT_FALSE(reading.entries[1].is_complete());
}

TEST_F(FlightWriterTest, OnlyItsOwnerMayReadIt) {
  const auto writer = Make();
  struct stat file;
  ASSERT_EQ(0, stat(path_.c_str(), &file));
  EXPECT_EQ(0600u, file.st_mode & 0777);
}

TEST_F(FlightWriterTest, ANewAttemptBeginsWithAnEmptyRing) {
  const auto first = Make();
  first->Begin({});
  const auto second = Make();
  EXPECT_TRUE(Read().entries.empty());
  first->Begin({});  // by a process that is about to be killed
  EXPECT_TRUE(Read().entries.empty());
}

TEST_F(FlightWriterTest, ANewAttemptKnowsHowLongPhasesTookInEarlierOnes) {
  const auto longest = [this](RankPhase phase) {
    return Read().pulse.longest_ns[static_cast<size_t>(phase)];
  };
  {
    const auto first = Make();
    first->Turn(RankPhase::kCheckpoint, kRingNoName);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    first->Turn(RankPhase::kData, kRingNoName);
  }
  const int64_t learned = longest(RankPhase::kCheckpoint);
  EXPECT_GE(learned, 5'000'000);
  const auto second = Make();
  EXPECT_EQ(learned, longest(RankPhase::kCheckpoint));
  EXPECT_EQ(0, longest(RankPhase::kCompile));
  EXPECT_EQ(0, Read().pulse.step_p99_ns);  // a new process warms up again
}

TEST_F(FlightWriterTest, LearnsNothingFromADamagedRing) {
  for (const char byte : {'\0', '\xff'}) {
    std::ofstream(path_, std::ios::binary) << std::string(kRingBytes, byte);
    const auto writer = Make();
    for (const int64_t longest : Read().pulse.longest_ns) EXPECT_EQ(0, longest);
  }
  { const auto writer = Make(); }
  // A ring whose words a broken script has overwritten.
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(104) << std::string(size_t{8} * kRingPhaseWords, '\x7f');
  file.close();
  const auto writer = Make();
  for (const int64_t longest : Read().pulse.longest_ns) EXPECT_EQ(0, longest);
}

TEST_F(FlightWriterTest, LearnsHowLongPhasesAndStepsTake) {
  const auto writer = Make();
  writer->Turn(RankPhase::kData, kRingNoName);
  writer->Turn(RankPhase::kData, kRingNoName);
  writer->Turn(RankPhase::kForward, kRingNoName);
  for (int step = 0; step < 21; ++step) writer->Step();
  const FlightReading reading = Read();
  EXPECT_EQ(2u, reading.entries.size());  // the same phase again adds no entry
  EXPECT_EQ(RankPhase::kForward, reading.pulse.phase);
  EXPECT_GT(reading.pulse.longest_ns[static_cast<size_t>(RankPhase::kData)], 0);
  EXPECT_GT(reading.pulse.step_p99_ns, 0);
}

// Sleeps are longer than asked for, never shorter.
void Work(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

int64_t Now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sums of 7 steps: the first one that is done begins the time, and of 8 the longest is left out.
TEST_F(FlightWriterTest, AddsUpWhatStepsAreSpentWith) {
  const auto writer = Make();
  const auto step = [&] {
    writer->Turn(RankPhase::kData, kRingNoName);
    Work(2);
    writer->Turn(RankPhase::kForward, kRingNoName);
    Work(4);
    writer->Turn(RankPhase::kCheckpoint, kRingNoName);
    Work(3);
    writer->Waited(Now() - 1'000'000);  // for others that save
    writer->Turn(RankPhase::kForward, kRingNoName);
    writer->Complete(writer->Begin({}));
    const int64_t waits_from = Now();
    Work(6);
    writer->Waited(waits_from);
    writer->Step();
  };
  for (int i = 0; i < 8; ++i) step();
  EXPECT_EQ(0u, Read().pulse.sums.steps);
  step();
  const StepSums sums = Read().pulse.sums;
  EXPECT_EQ(7u, sums.steps);
  EXPECT_GE(sums.data, Duration::Milliseconds(7 * 2));
  EXPECT_GE(sums.own, Duration::Milliseconds(7 * 4));
  EXPECT_GE(sums.waited, Duration::Milliseconds(7 * 6));
  EXPECT_EQ(sums.whole, sums.own + sums.data + sums.waited);
  EXPECT_FALSE(sums.is_piped);
}

// Four reports of ten steps are five blocks of eight; the longest step of each is left out.
TEST_F(FlightWriterTest, StepsThatEndedTogetherShareTheirTime) {
  const auto writer = Make();
  writer->Step();
  for (int i = 0; i < 4; ++i) {
    Work(20);
    writer->Step(10);
  }
  const StepSums sums = Read().pulse.sums;
  ASSERT_EQ(35u, sums.steps);
  EXPECT_GE(sums.own, Duration::Milliseconds(35 * 2));
}

// The reducer of DDP begins its collectives in backward and waits for them in C++ at its end.
TEST_F(FlightWriterTest, TheEndOfBackwardIsWaitingWhenACollectiveIsPending) {
  const auto writer = Make();
  const auto step = [&](bool is_waited_for) {
    writer->Turn(RankPhase::kBackward, kRingNoName);
    Work(2);
    writer->Begin({});
    if (is_waited_for) writer->Waited(Now());
    Work(5);
    writer->Turn(RankPhase::kForward, kRingNoName);
    writer->Step();
  };
  for (int i = 0; i < 9; ++i) step(false);
  const StepSums pending = Read().pulse.sums;
  EXPECT_GE(pending.waited, Duration::Milliseconds(7 * 5));
  EXPECT_GE(pending.own, Duration::Milliseconds(7 * 2));
  for (int i = 0; i < 8; ++i) step(true);
  const StepSums seen = Read().pulse.sums;
  EXPECT_GE(seen.own - pending.own, Duration::Milliseconds(7 * 7));
  EXPECT_LT(seen.waited - pending.waited, Duration::Milliseconds(7));
  writer->Begin({.kind = FlightKind::kPointToPoint});
  EXPECT_TRUE(Read().pulse.sums.is_piped);
}

// Nothing depends on how long the phases last: their times add up to the time that has passed.
TEST_F(FlightWriterTest, AddsUpTheTimeOfEachPhase) {
  const auto writer = Make();
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  constexpr Duration kPause = Duration::Milliseconds(3);
  pause();
  for (int i = 0; i < 2; ++i) {
    writer->Turn(RankPhase::kData, 0);
    pause();
    writer->Turn(RankPhase::kEvaluation, 0);
    pause();
  }
  writer->Step();  // ends no phase
  writer->Turn(RankPhase::kForward, 0);
  const RingPulse pulse = Read().pulse;
  ASSERT_TRUE(pulse.spent.has_value());
  const auto of = [&](RankPhase phase) { return pulse.spent->of[static_cast<size_t>(phase)]; };
  EXPECT_GE(of(RankPhase::kStart), kPause);
  EXPECT_GE(of(RankPhase::kData), kPause * 2);
  EXPECT_GE(of(RankPhase::kEvaluation), kPause * 2);
  EXPECT_EQ(of(RankPhase::kForward), Duration()) << "it lasts";
  EXPECT_EQ(pulse.spent->waited, Duration());
}

TEST_F(FlightWriterTest, CountsWaitingInTheWholeAttempt) {
  const auto writer = Make();
  writer->Turn(RankPhase::kForward, 0);
  const int64_t since = MonotonicNanoseconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  writer->Waited(since);
  writer->Turn(RankPhase::kUnknown, 0);
  const RingPulse pulse = Read().pulse;
  ASSERT_TRUE(pulse.spent.has_value());
  EXPECT_GE(pulse.spent->waited, Duration::Milliseconds(3));
  EXPECT_LE(pulse.spent->waited, pulse.spent->of[static_cast<size_t>(RankPhase::kForward)]);
}

TEST_F(FlightWriterTest, ThreadsLoseNoRecordOfEachOther) {
  const auto writer = Make();
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&writer] {
      for (int n = 0; n < kEach; ++n) writer->Complete(writer->Begin({.sequence = 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const FlightReading reading = Read();
  EXPECT_EQ(size_t{kThreads * kEach}, reading.entries.size());
  EXPECT_EQ(0u, reading.pulse.open);
  for (const FlightEntry& entry : reading.entries) EXPECT_TRUE(entry.is_complete());
}

TEST_F(FlightWriterTest, NamesEndAndLongOnesAreCut) {
  const auto writer = Make();
  const uint32_t cut = writer->Name(std::string(500, 'x'));
  writer->Begin({.site = cut});
  EXPECT_EQ(std::string(127, 'x'), Read().entries[0].site);
  uint32_t last = cut;
  while (last != kRingNoName && last < 5000) last = writer->Name("y");
  EXPECT_EQ(kRingNoName, last);
  writer->Begin({.site = last});
  EXPECT_EQ("", Read().entries[1].site);
}

TEST_F(FlightWriterTest, WhoHasLeftWritesNothing) {
  const auto writer = Make();
  writer->Leave();
  writer->Complete(writer->Begin({}));
  writer->Turn(RankPhase::kData, writer->Name("x"));
  writer->Step();
  EXPECT_TRUE(Read().entries.empty());
}

TEST(FlightWriter, APlaceThatIsNotThereIsRefused) {
  const auto writer = FlightWriter::Make({.path = "/nowhere/ring"});
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(FailureKind::kSystem, writer.failure().kind);
}

}  // namespace
}  // namespace paceline::client
