#include "paceline/model/ring_slice.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

FlightEntry Collective(uint64_t number, int64_t begun, int64_t completed) {
  return {.number = number,
          .kind = FlightKind::kCollective,
          .operation = "all_reduce",
          .begun_ns = begun,
          .completed_ns = completed};
}
FlightEntry Phase(uint64_t number, int64_t begun) {
  return {.number = number, .kind = FlightKind::kPhase, .operation = "data", .begun_ns = begun};
}
std::vector<uint64_t> Numbers(const RingSlice& slice) {
  std::vector<uint64_t> numbers;
  for (const FlightEntry& entry : slice.entries) numbers.push_back(entry.number);
  return numbers;
}

constexpr uint64_t kNewest = UINT64_MAX;

TEST(RingSlice, HasWhatHadNotEndedAndThePhaseThatLasted) {
  FlightReading ring;
  ring.pulse.rank = 3;
  ring.pulse.generation = 7;
  ring.entries = {Phase(0, 10),          Collective(1, 11, 12),  Phase(2, 20),
                  Collective(3, 21, 22), Collective(4, 23, 101), Collective(5, 24, 0),
                  Phase(6, 150)};
  const RingSlice slice = CutRing(ring, kNewest, 100, 9);
  EXPECT_EQ(Numbers(slice), (std::vector<uint64_t>{2, 4, 5, 6}));
  EXPECT_EQ(slice.rank, 3);
  EXPECT_EQ(slice.generation, 7u);
  EXPECT_EQ(slice.whole_from_ns, 0);
  EXPECT_FALSE(slice.has_older);
}

TEST(RingSlice, GoesBackwardsInPartsUntilNothingOlderIsThere) {
  FlightReading ring;
  for (uint64_t number = 50; number < 55; ++number) {
    const auto at = static_cast<int64_t>(number);
    ring.entries.push_back(Collective(number, at, at));
  }
  const RingSlice newest = CutRing(ring, kNewest, 0, 2);
  EXPECT_EQ(Numbers(newest), (std::vector<uint64_t>{53, 54}));
  EXPECT_TRUE(newest.has_older);
  // The ring is full: what was before its oldest record is lost.
  EXPECT_EQ(newest.whole_from_ns, 50);
  const RingSlice middle = CutRing(ring, 53, 0, 2);
  EXPECT_EQ(Numbers(middle), (std::vector<uint64_t>{51, 52}));
  EXPECT_TRUE(middle.has_older);
  const RingSlice oldest = CutRing(ring, 51, 0, 2);
  EXPECT_EQ(Numbers(oldest), (std::vector<uint64_t>{50}));
  EXPECT_FALSE(oldest.has_older);
  EXPECT_FALSE(CutRing(ring, 52, 0, 2).has_older);
}

TEST(RingSlice, RecordsThatWereOverwrittenMeanwhileAreMissed) {
  FlightReading ring;
  ring.entries = {Collective(90, 900, 901), Collective(91, 910, 911)};
  const RingSlice slice = CutRing(ring, 53, 0, 2);
  EXPECT_TRUE(slice.entries.empty());
  EXPECT_FALSE(slice.has_older);
  EXPECT_EQ(slice.whole_from_ns, 900);
}

}  // namespace
}  // namespace paceline
