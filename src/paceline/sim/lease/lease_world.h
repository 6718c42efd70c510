#pragma once

// Leases under faults: the production LeaseBook, a slow disk, links that lose messages, and workers
// that take, acknowledge late, freeze, die and return. It is separate from the world of jobs,
// because it needs no nodes and no recovery. Everything is drawn from a seed.
//
// Invariant `samples_once`, by two counts. By facts: in the surviving lineage every ordinal was
// acknowledged once or is quarantined, and a crash cannot undo a confirmation. By a counting model,
// in worlds that follow checkpoints: every rank adds one to its count of each ordinal that it works
// on, and saves and restores its counts with the data's position. At the end the counts of all
// ranks add up to one for each ordinal.
//
// In half of the worlds that follow checkpoints all ranks end at one step: each rank was granted
// the same number in the last lineage, and fewer ordinals are left than there are ranks. Every
// worker also reports its order, and no worker may be told that orders differ.

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::sim {

// A planted bug. The checks must find each one.
enum class LeaseCanary {
  kNone,
  kConfirmEarly,  // the host answers before its disk has the fact
  kLoseFacts,     // a crash loses durable facts
  kCountStale,    // a worker counts a refused result
  kNoRewind,      // a restored model continues without rewinding the data
  kUnevenShares,  // ranks that save the same steps get different shares
  kOtherOrder,    // one rank reads another order
};
inline constexpr int kLeaseCanaries = 7;  // with kNone

struct LeaseOutcome {
  std::string wrong;    // empty: every sample counts once, and the world ended
  uint64_t events = 0;  // that the ledger handled
  uint64_t faults = 0;
  uint64_t unseed = 0;  // the next random number; equal in two runs of one seed
};

// The kinds of faults, by number.
inline constexpr std::string_view kLeaseFaults[] = {"crash", "link", "freeze", "die", "return"};

// Limits with which a failing run is made smaller.
struct LeaseLimits {
  uint64_t faulty_steps = 3'000;  // after them there are no faults
  uint32_t without = 0;           // a bit for each kind of fault to leave out
};

LeaseOutcome RunLeaseWorld(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits = {});

}  // namespace paceline::sim
