#include "paceline/agent/hang/failed_call.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

constexpr uint32_t kRanks = 3;

// The rank is in its first collective, of so many bytes.
void WriteRing(const FlightRings& rings, uint32_t rank, uint64_t bytes, const std::string& site) {
  std::vector<uint64_t> words(kRingBytes / 8);
  FormatRing(std::as_writable_bytes(std::span(words)), 1, rank, 77);
  auto& ring = *reinterpret_cast<RingHeader*>(words.data());
  std::memcpy(NameOf(ring, 1), "0 0-2", 5);
  std::memcpy(NameOf(ring, 2), "all_reduce", 10);
  std::memcpy(NameOf(ring, 3), site.data(), site.size());
  ring.names_used = 3;
  FlightRecord& record = RecordOf(ring, 0);
  record.kind = FlightKind::kCollective;
  record.group = 1;
  record.operation = 2;
  record.site = 3;
  record.sequence = 1;
  record.bytes = bytes;
  record.begun_ns = 5;
  record.commit = 1;
  ring.begun = 1;
  std::ofstream(rings.PathOf(rank), std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(kRingBytes));
}

ExitCause Abort() {
  return {.kind = ExitCause::Kind::kSignaled,
          .code = SIGABRT,
          .fingerprint = "SIGABRT",
          .headline = "killed by SIGABRT"};
}

TEST(FailedCall, BothLinesAreAddedToTheCauseOfARankThatAborts) {
  const TestDir dir;
  const FlightRings rings({dir.path() + "/job", "node0", "5eed"});
  for (const uint32_t rank : {0U, 2U}) WriteRing(rings, rank, 32, "train.py:44");
  WriteRing(rings, 1, 36, "train.py:60");
  ExitCause cause = Abort();
  ExplainByCalls(rings, kRanks, Generation(1), Rank(0), &cause);
  EXPECT_EQ(
      "killed by SIGABRT; rank 1 made another call than ranks 0 and 2: all_reduce of 36 bytes at "
      "train.py:60, not all_reduce of 32 bytes at train.py:44",
      cause.headline);
  EXPECT_EQ("mismatched call@train.py:60|train.py:44", cause.fingerprint);
}

TEST(FailedCall, NothingIsAddedWithoutADifferenceOrForAnEndFromOutside) {
  const TestDir dir;
  const FlightRings rings({dir.path() + "/job", "node0", "5eed"});
  for (uint32_t rank = 0; rank < kRanks; ++rank) WriteRing(rings, rank, 32, "train.py:44");
  ExitCause cause = Abort();
  ExplainByCalls(rings, kRanks, Generation(1), Rank(0), &cause);
  EXPECT_EQ(Abort(), cause);
  WriteRing(rings, 1, 36, "train.py:60");
  ExplainByCalls(rings, kRanks, Generation(2), Rank(0), &cause);  // rings of an older world
  EXPECT_EQ(Abort(), cause);
  cause.code = SIGKILL;
  ExplainByCalls(rings, kRanks, Generation(1), Rank(0), &cause);
  EXPECT_EQ("SIGABRT", cause.fingerprint);
}

}  // namespace
}  // namespace paceline::agent
