#pragma once

// Leases under faults: the production LeaseBook, a disk that is late, links that lose what is on
// them, and workers that take, acknowledge late, freeze, die and come back. A world of its own
// beside that of jobs, because nothing of it needs nodes or recovery; everything is drawn from a
// seed.
//
// Invariant `samples_once`, by two counts. Of the facts: in the lineage that survives, every
// ordinal was acknowledged once or is in quarantine, and nothing was confirmed that a crash could
// still undo. Of a counting model, in worlds that follow checkpoints: every rank adds one to its
// count of each ordinal that it works on, saves and restores its counts with the position of the
// data, and at the end the counts of all ranks together are one everywhere.
//
// In half of the worlds that follow checkpoints all ranks end at one step: each of them was granted
// as much in the last lineage, and less than one ordinal for each rank is left. Every worker also
// reports its order, and none is told that orders differ.

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::sim {

// A bug on purpose; the world must see each.
enum class LeaseCanary {
  kNone,
  kConfirmEarly,  // the host answers before its disk has the fact
  kLoseFacts,     // a crash takes durable facts along
  kCountStale,    // a worker counts what was refused
  kNoRewind,      // a restored model goes on with the data as it stands
  kUnevenShares,  // ranks that save the same steps get shares that differ
  kOtherOrder,    // a rank reads another order than the others
};
inline constexpr int kLeaseCanaries = 7;  // with kNone

struct LeaseOutcome {
  std::string wrong;    // empty: every sample counts once, and the world ended
  uint64_t events = 0;  // that the ledger took
  uint64_t faults = 0;
  uint64_t unseed = 0;  // the next random number: equal in two runs of one seed
};

// Kinds of faults, by number.
inline constexpr std::string_view kLeaseFaults[] = {"crash", "link", "freeze", "die", "return"};

// What is taken away from a world as it was drawn.
struct LeaseLimits {
  uint64_t faulty_steps = 3'000;  // after them nothing fails any more
  uint32_t without = 0;           // a bit for each kind of fault that does not strike
};

LeaseOutcome RunLeaseWorld(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits = {});

}  // namespace paceline::sim
