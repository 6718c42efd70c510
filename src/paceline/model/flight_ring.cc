#include "paceline/model/flight_ring.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint32_t kFirstOctave = 17;
// The first steps of an attempt compile and fill caches, so their times are not typical.
constexpr uint64_t kStepsLearned = 20;

// The ring is only read, but atomics cannot be read through const memory.
RingHeader& Mutable(std::span<const std::byte> memory) {
  return *reinterpret_cast<RingHeader*>(const_cast<std::byte*>(memory.data()));
}

std::string TextOf(RingHeader& ring, uint32_t name, uint64_t used) {
  if (name == kRingNoName || name > used) return "";
  const char* text = NameOf(ring, name);
  size_t length = 0;
  while (length + 1 < kRingNameBytes && text[length] >= ' ' && text[length] <= '~') ++length;
  return {text, length};
}

FlightKind KindOf(FlightKind claimed) {
  switch (claimed) {
    case FlightKind::kCollective:
    case FlightKind::kPointToPoint:
    case FlightKind::kPhase: return claimed;
    case FlightKind::kNone: break;
  }
  return FlightKind::kNone;
}

std::optional<FlightEntry> ReadRecord(RingHeader& ring, uint64_t number, uint64_t used) {
  FlightRecord& record = RecordOf(ring, number);
  if (record.commit.load(std::memory_order_acquire) != number + 1) return std::nullopt;
  const FlightKind kind = KindOf(record.kind.load(kRelaxed));
  const uint32_t operation = record.operation.load(kRelaxed);
  FlightEntry entry{.number = number,
                    .kind = kind,
                    .group = TextOf(ring, record.group.load(kRelaxed), used),
                    .operation = kind == FlightKind::kPhase
                                     ? std::string(PhaseName(static_cast<RankPhase>(operation)))
                                     : TextOf(ring, operation, used),
                    .dtype = TextOf(ring, record.dtype.load(kRelaxed), used),
                    .site = TextOf(ring, record.site.load(kRelaxed), used),
                    .sequence = record.sequence.load(kRelaxed),
                    .bytes = record.bytes.load(kRelaxed),
                    .begun_ns = record.begun_ns.load(kRelaxed),
                    .completed_ns = record.completed_ns.load(kRelaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_whole = record.commit.load(kRelaxed) == number + 1;
  if (!is_whole || entry.kind == FlightKind::kNone) return std::nullopt;
  return entry;
}

// The ring in `memory`, which must have at least `bytes`; or null, with the reason in *why.
RingHeader* CheckRing(std::span<const std::byte> memory, size_t bytes, std::string_view* why) {
  const auto refuse = [why](std::string_view reason) -> RingHeader* {
    if (why != nullptr) *why = reason;
    return nullptr;
  };
  if (memory.size() < bytes) return refuse("the file is shorter than a flight ring");
  RingHeader& ring = Mutable(memory);
  if (ring.magic.load(std::memory_order_acquire) != kRingMagic) {
    return refuse("this is not a flight ring");
  }
  if (ring.version != kRingVersion) return refuse("the ring has another version");
  if (ring.header_bytes != kRingHeaderBytes || ring.name_bytes != kRingNameBytes ||
      ring.name_count != kRingNames || ring.record_bytes != sizeof(FlightRecord) ||
      ring.record_count != kRingRecords) {
    return refuse("the ring has another layout");
  }
  return &ring;
}

StepSums SumsOf(const RingHeader& ring) {
  const uint64_t commit = ring.sums_commit.load(std::memory_order_acquire);
  StepSums sums{.steps = ring.steps.load(kRelaxed),
                .whole = Duration::Nanoseconds(ring.whole_ns.load(kRelaxed)),
                .own = Duration::Nanoseconds(ring.own_ns.load(kRelaxed)),
                .data = Duration::Nanoseconds(ring.data_ns.load(kRelaxed)),
                .waited = Duration::Nanoseconds(ring.waited_ns.load(kRelaxed)),
                .is_piped = ring.point_to_point.load(kRelaxed) > 0};
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_whole = ring.sums_begun.load(kRelaxed) == commit;
  const bool is_possible = sums.whole >= Duration() && sums.own >= Duration() &&
                           sums.data >= Duration() && sums.waited >= Duration();
  return is_whole && is_possible ? sums : StepSums();
}

std::optional<PhaseTimes> SpentOf(const RingHeader& ring) {
  const int64_t since = ring.spent_since_ns.load(kRelaxed);
  if (since <= 0) return std::nullopt;
  PhaseTimes times;
  int64_t left = ring.phase_since_ns.load(kRelaxed) - since;
  for (uint32_t i = 0; i < kRankPhases; ++i) {
    const int64_t spent = ring.spent_ns[i].load(kRelaxed);
    if (spent < 0 || spent > left) return std::nullopt;
    left -= spent;
    times.of[i] = Duration::Nanoseconds(spent);
  }
  const int64_t waited = ring.spent_ns[kSpentWaiting].load(kRelaxed);
  if (left != 0 || waited < 0) return std::nullopt;
  times.waited = Duration::Nanoseconds(waited);
  return times;
}

RingPulse PulseOf(const RingHeader& ring) {
  RingPulse pulse{.generation = ring.generation,
                  .rank = ring.rank,
                  .phase = ring.phase.load(kRelaxed),
                  .phase_since_ns = ring.phase_since_ns.load(kRelaxed),
                  .last_event_ns = ring.last_event_ns.load(kRelaxed),
                  .open = ring.open.load(kRelaxed)};
  if (static_cast<uint32_t>(pulse.phase) >= kRankPhases) pulse.phase = RankPhase::kUnknown;
  std::array<uint32_t, kStepTimeBuckets> counts{};
  for (uint32_t i = 0; i < kStepTimeBuckets; ++i) counts[i] = ring.step_times[i].load(kRelaxed);
  uint64_t steps = 0;
  for (const uint32_t count : counts) steps += count;
  if (steps >= kStepsLearned) pulse.step_p99_ns = StepTimeP99(counts);
  for (uint32_t i = 0; i < kRankPhases; ++i) {
    pulse.longest_ns[i] = ring.longest_ns[i].load(kRelaxed);
  }
  pulse.sums = SumsOf(ring);
  // The phase that lasts must be that of these times.
  pulse.spent = SpentOf(ring);
  if (ring.phase_since_ns.load(kRelaxed) != pulse.phase_since_ns) pulse.spent.reset();
  return pulse;
}

}  // namespace

void FormatRing(std::span<std::byte> memory, uint64_t generation, int64_t rank,
                int64_t writer_pid) {
  auto& ring = *reinterpret_cast<RingHeader*>(memory.data());
  ring.version = kRingVersion;
  ring.header_bytes = kRingHeaderBytes;
  ring.name_bytes = kRingNameBytes;
  ring.name_count = kRingNames;
  ring.record_bytes = sizeof(FlightRecord);
  ring.record_count = kRingRecords;
  ring.generation = generation;
  ring.rank = rank;
  ring.writer_pid = writer_pid;
  ring.magic.store(kRingMagic, std::memory_order_release);
}

std::string_view PhaseName(RankPhase phase) {
  switch (phase) {
    case RankPhase::kStart: return "start";
    case RankPhase::kData: return "data";
    case RankPhase::kForward: return "forward";
    case RankPhase::kBackward: return "backward";
    case RankPhase::kOptimizer: return "optimizer";
    case RankPhase::kCheckpoint: return "checkpoint";
    case RankPhase::kCompile: return "compile";
    case RankPhase::kEvaluation: return "evaluation";
    case RankPhase::kEnd: return "end";
    case RankPhase::kRestore: return "restore";
    case RankPhase::kUnknown: break;
  }
  return "unknown";
}

uint32_t StepTimeBucket(int64_t nanoseconds) {
  if (nanoseconds < (int64_t{1} << kFirstOctave)) return 0;
  const auto time = static_cast<uint64_t>(nanoseconds);
  const auto octave = static_cast<uint32_t>(std::bit_width(time)) - 1;
  const auto half = static_cast<uint32_t>(time >> (octave - 1)) & 1U;
  return std::min(1 + 2 * (octave - kFirstOctave) + half, kStepTimeBuckets - 1);
}

int64_t StepTimeP99(std::span<const uint32_t, kStepTimeBuckets> counts) {
  uint64_t total = 0;
  for (const uint32_t count : counts) total += count;
  if (total == 0) return 0;
  uint64_t above = total / 100;
  uint32_t bucket = kStepTimeBuckets - 1;
  while (bucket > 0 && counts[bucket] <= above) above -= counts[bucket--];
  if (bucket == 0) return int64_t{1} << kFirstOctave;
  const uint32_t octave = kFirstOctave + (bucket - 1) / 2;
  const bool is_upper_half = (bucket - 1) % 2 == 1;
  return is_upper_half ? int64_t{2} << octave : int64_t{3} << (octave - 1);
}

std::optional<RingPulse> ReadPulse(std::span<const std::byte> memory, std::string_view* why) {
  RingHeader* ring = CheckRing(memory, kRingHeaderBytes, why);
  if (ring == nullptr) return std::nullopt;
  return PulseOf(*ring);
}

std::optional<FlightReading> ReadRing(std::span<const std::byte> memory, std::string_view* why) {
  RingHeader* ring = CheckRing(memory, kRingBytes, why);
  if (ring == nullptr) return std::nullopt;
  FlightReading reading{.pulse = PulseOf(*ring), .writer_pid = ring->writer_pid};
  const uint64_t begun = ring->begun.load(std::memory_order_acquire);
  const uint64_t used =
      std::min<uint64_t>(ring->names_used.load(std::memory_order_acquire), kRingNames - 1);
  const uint64_t first = begun > kRingRecords ? begun - kRingRecords : 0;
  for (uint64_t number = first; number < begun; ++number) {
    if (auto entry = ReadRecord(*ring, number, used); entry.has_value()) {
      reading.entries.push_back(std::move(*entry));
    }
  }
  return reading;
}

}  // namespace paceline
