#pragma once

// A part of a flight ring's content, small enough for one message. Pure.
//
// A reader takes the newest slice first, and goes back in time slice by slice. Between two slices
// the rank may write, and its ring then loses its oldest records. So the records that a reader
// misses are the oldest ones of the time that it asked for.

#include <cstdint>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/flight_ring.h"

namespace paceline {

inline constexpr size_t kRingSliceMax = 1024;  // records of one slice

// The clocks of a host at one moment.
struct HostNow {
  Instant wall;
  int64_t monotonic_ns = 0;  // the clock of the rings
};

struct RingSlice {
  int64_t rank = -1;
  uint64_t generation = 0;
  int64_t last_event_ns = 0;
  bool is_alive = false;  // the rank's process lives
  // When the ring's oldest record begins. What was before it may be lost. 0: nothing was lost.
  int64_t whole_from_ns = 0;
  bool has_older = false;            // records before the first of `entries` that were asked for
  std::vector<FlightEntry> entries;  // oldest first
};

// The newest `count_max` records that have numbers below `before` and belong to the time since
// `from_ns`: records that had not ended by then, and the phase that lasted then.
RingSlice CutRing(const FlightReading& ring, uint64_t before, int64_t from_ns, size_t count_max);

}  // namespace paceline
