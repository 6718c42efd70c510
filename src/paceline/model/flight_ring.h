// The flight ring: a rank's last actions, in a file in memory that outlives the rank.
//
// Before a collective starts, and when the rank turns from data to forward to backward, the rank
// writes a record of 64 bytes. When a job hangs, the agent reads its ranks' rings and sees which
// rank entered which collective. The ring keeps the newest kRingRecords records.
// docs/formats/flight_ring.md is the specification; this header is its C++ form and does no I/O:
// the caller maps the file.
//
// Several threads of the rank write without a lock: each takes the next number, fills that record
// and stores `commit` last, with release order. A reader accepts a record if `commit` is the same
// before and after, and is correct for the record's place. All times are CLOCK_MONOTONIC
// nanoseconds of this boot; 0 means "not yet".
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/phase_time.h"
#include "paceline/model/rank_sample.h"

namespace paceline {

inline constexpr uint64_t kRingMagic = 0x0031'474e'4952'4C50ULL;  // the bytes "PLRING1\0"
inline constexpr uint32_t kRingVersion = 1;
inline constexpr uint32_t kRingHeaderBytes = 4096;
inline constexpr uint32_t kRingNameBytes = 128;  // with a NUL at the end
inline constexpr uint32_t kRingNames = 1024;
inline constexpr uint32_t kRingRecords = 4096;
// The number of a text that did not fit into the table: an empty text.
inline constexpr uint32_t kRingNoName = 0;
inline constexpr uint32_t kRingPhaseWords = 16;
static_assert(kRankPhases < kRingPhaseWords);
// The word of `spent_ns` that is of no phase: what of the other words was waiting in collectives.
inline constexpr uint32_t kSpentWaiting = kRingPhaseWords - 1;
inline constexpr uint32_t kStepTimeBuckets = 64;

enum class FlightKind : uint32_t {
  kNone = 0,
  kCollective = 1,    // all members of a group take part; counted by `sequence`
  kPointToPoint = 2,  // a send or a receive; not counted
  kPhase = 3,         // `operation` is the phase that began
};

struct RingHeader {
  std::atomic<uint64_t> magic;  // commit word of the header: stored last by its creator
  uint32_t version;
  uint32_t header_bytes;
  uint32_t name_bytes;
  uint32_t name_count;
  uint32_t record_bytes;
  uint32_t record_count;
  uint64_t generation;  // of the rank's world
  int64_t rank;
  int64_t writer_pid;                  // a forked child of it does not write
  std::atomic<uint64_t> begun;         // number of records begun so far
  std::atomic<uint64_t> names_used;    // names[1 … names_used] are valid
  std::atomic<int64_t> last_event_ns;  // last begin, completion or step
  std::atomic<RankPhase> phase;
  std::atomic<uint32_t> open;  // collectives begun and not complete
  std::atomic<int64_t> phase_since_ns;
  std::atomic<int64_t> last_step_ns;
  std::atomic<int64_t> longest_ns[kRingPhaseWords];    // longest completed stretch of each phase
  std::atomic<uint32_t> step_times[kStepTimeBuckets];  // see StepTimeBucket
  // What the steps took (StepSums); written by one thread at the end of each block of steps.
  // `sums_begun` is stored before the others and `sums_commit`, with the same number, after them.
  std::atomic<uint64_t> sums_begun;
  std::atomic<uint64_t> sums_commit;
  std::atomic<uint64_t> steps;  // of those after the first, which began with the attempt
  std::atomic<int64_t> whole_ns;
  std::atomic<int64_t> own_ns;
  std::atomic<int64_t> data_ns;
  std::atomic<int64_t> waited_ns;
  std::atomic<uint64_t> point_to_point;  // sends and receives that were begun
  // Time by phase since `spent_since_ns`, up to `phase_since_ns`: the phase that lasts is not in
  // it. So the words of all phases add up to the time between these two. If they do not, they are
  // being written. 0 since: the writer's release did not count.
  std::atomic<int64_t> spent_since_ns;
  std::atomic<int64_t> spent_ns[kRingPhaseWords];
  char reserved[kRingHeaderBytes - 176 - 16 * kRingPhaseWords - 4 * kStepTimeBuckets];
};
static_assert(sizeof(RingHeader) == kRingHeaderBytes);
static_assert(offsetof(RingHeader, begun) == 56 && offsetof(RingHeader, sums_begun) == 488);
static_assert(offsetof(RingHeader, spent_since_ns) == 552);

struct FlightRecord {
  std::atomic<uint64_t> commit;  // 1 + the record's number; 0 while it is being written
  std::atomic<FlightKind> kind;
  std::atomic<uint32_t> group;  // this and the next three are indexes of names
  std::atomic<uint32_t> operation;
  std::atomic<uint32_t> dtype;
  std::atomic<uint32_t> site;  // "train.py:44"
  std::atomic<uint32_t> reserved;
  std::atomic<uint64_t> sequence;  // of the group's collectives, from 1
  std::atomic<uint64_t> bytes;
  std::atomic<int64_t> begun_ns;
  std::atomic<int64_t> completed_ns;
};
static_assert(sizeof(FlightRecord) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<FlightKind>::is_always_lock_free);

inline constexpr size_t kRingBytes = kRingHeaderBytes + size_t{kRingNames} * kRingNameBytes +
                                     size_t{kRingRecords} * sizeof(FlightRecord);

inline char* NameOf(RingHeader& ring, uint32_t name) {
  return reinterpret_cast<char*>(&ring) + kRingHeaderBytes + size_t{name} * kRingNameBytes;
}
inline FlightRecord& RecordOf(RingHeader& ring, uint64_t number) {
  auto* records = reinterpret_cast<FlightRecord*>(NameOf(ring, kRingNames));
  return records[number % kRingRecords];
}

// Makes a ring in zeroed memory of kRingBytes bytes.
void FormatRing(std::span<std::byte> memory, uint64_t generation, int64_t rank, int64_t writer_pid);

// Times between two steps are counted in buckets, two an octave, the first one below 2^17 ns.
uint32_t StepTimeBucket(int64_t nanoseconds);
// The upper end of the bucket with the 99th percentile of step times; 0 if none was counted.
int64_t StepTimeP99(std::span<const uint32_t, kStepTimeBuckets> counts);

// The header's words at one moment. They suffice for an agent to see whether a rank is quiet.
struct RingPulse {
  uint64_t generation = 0;
  int64_t rank = -1;
  RankPhase phase = RankPhase::kStart;
  int64_t phase_since_ns = 0;
  int64_t last_event_ns = 0;
  uint32_t open = 0;
  int64_t step_p99_ns = 0;  // 0: fewer than 20 steps were timed
  std::array<int64_t, kRankPhases> longest_ns{};
  StepSums sums;  // no steps: none is counted yet, or they were being written
  // Of the phases that have ended; the one that lasts began at phase_since_ns. Empty: the rank does
  // not count its time, or the words were being written.
  std::optional<PhaseTimes> spent;
};

// One record as a reader saw it.
struct FlightEntry {
  uint64_t number = 0;
  FlightKind kind = FlightKind::kNone;
  std::string group;
  std::string operation;
  std::string dtype;
  std::string site;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  int64_t begun_ns = 0;
  int64_t completed_ns = 0;
  bool is_complete() const { return completed_ns != 0; }
};

struct FlightReading {
  RingPulse pulse;
  int64_t writer_pid = 0;
  std::vector<FlightEntry> entries;  // oldest first, without records that were being written
};

// The content of the ring in `memory`. Empty if it is not a ring of this version; *why has the
// reason. No word is trusted, because a broken script may write anywhere in its memory: a record
// with an impossible number is skipped, and a text is cut at its first byte that is not printable
// ASCII.
std::optional<FlightReading> ReadRing(std::span<const std::byte> memory, std::string_view* why);
// Needs the header only.
std::optional<RingPulse> ReadPulse(std::span<const std::byte> memory, std::string_view* why);

}  // namespace paceline
