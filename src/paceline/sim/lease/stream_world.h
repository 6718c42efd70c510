#pragma once

// Live streams under faults: a broker whose partitions grow, become more and lose old records to
// retention, and workers that read them by leases. As in lease_world.h the ledger is the production
// LeaseBook on a slow disk, and workers freeze, die and return. Everything is drawn from a seed.
//
// Invariants at the end, when the broker has stopped:
//
// - Every record was acknowledged once in the surviving lineage, and in worlds that follow
//   checkpoints the models of all workers together count it once. The exceptions are the records
//   that retention has eaten; exactly these are in a recorded gap.
// - No worker has two partitions more than another one.

#include <cstdint>

#include "paceline/sim/lease/lease_world.h"

namespace paceline::sim {

// A planted bug. The checks must find each one.
enum class StreamCanary {
  kNone,
  kHeldTwice,       // a worker counts what it did of a lease that another one has by now
  kReadPastRecall,  // a worker returns a lease and counts the next records all the same
};
inline constexpr int kStreamCanaries = 3;  // with kNone

LeaseOutcome RunStreamWorld(uint64_t seed, StreamCanary canary, const LeaseLimits& limits = {});

}  // namespace paceline::sim
