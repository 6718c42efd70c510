#include "paceline/model/ring_slice.h"

#include <algorithm>

namespace paceline {
namespace {

// The number of the newest phase that began before `from_ns`; 0: none, and then all phases count.
uint64_t PhaseAt(const FlightReading& ring, int64_t from_ns) {
  uint64_t number = 0;
  for (const FlightEntry& entry : ring.entries) {
    if (entry.kind == FlightKind::kPhase && entry.begun_ns <= from_ns) number = entry.number;
  }
  return number;
}

}  // namespace

RingSlice CutRing(const FlightReading& ring, uint64_t before, int64_t from_ns, size_t count_max) {
  RingSlice slice{.rank = ring.pulse.rank,
                  .generation = ring.pulse.generation,
                  .last_event_ns = ring.pulse.last_event_ns};
  if (!ring.entries.empty() && ring.entries.front().number > 0) {
    slice.whole_from_ns = ring.entries.front().begun_ns;
  }
  const uint64_t phase = PhaseAt(ring, from_ns);
  for (auto entry = ring.entries.rbegin(); entry != ring.entries.rend(); ++entry) {
    const bool is_phase = entry->kind == FlightKind::kPhase;
    const bool is_wanted =
        is_phase ? entry->number >= phase : !entry->is_complete() || entry->completed_ns >= from_ns;
    if (entry->number >= before || !is_wanted) continue;
    if (slice.entries.size() == count_max) {
      slice.has_older = true;
      break;
    }
    slice.entries.push_back(*entry);
  }
  std::ranges::reverse(slice.entries);
  return slice;
}

}  // namespace paceline
