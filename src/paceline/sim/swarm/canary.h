#pragma once

// Bugs planted around the core, on purpose. A run with one of them must fail: that is the proof
// that the checks would see a bug of this kind. They live in the simulated hosts, never in the
// core.

#include <optional>
#include <span>
#include <string_view>

namespace paceline::sim {

enum class Canary {
  kNone,
  kForgetToFence,        // a node reports old ranks as killed and lets them live
  kDropRecord,           // a record of a batch is not written
  kEffectBeforeDurable,  // effects run while their records are still in memory
  kDoubleRank,           // the starter forks twice for one order
  kIgnoreSilence,        // the master never looks at its deadline
  kTrustStreams,         // an open stream counts as a sign of life
  kWrongSeat,            // a node starts the ranks of another seat
  kStaleAssignment,      // an agent acts on an older assignment that arrives late
  kLoseExit,             // an agent never hears that its rank died
  kBlameNeighbour,       // an exit is reported under another rank's number
  kForgetRecord,         // a restarted master misses the last durable record
  kClockRunsBack,        // the master's time may start before its journal ends
  kHoldExits,            // a rank that was told to end stays
  kHastySilence,         // the master gives a silent node up as soon as it may
  kWildClock,            // a step depends on something that no seed controls
  kForgetHold,           // an agent does not tell its ranks what has to stay
  kMixSteps,             // a rank restores what is there, not what was decided
  kCommitUnchecked,      // a checkpoint is committed without a look at its shards
  kPruneNewest,          // retention removes the newest
  kTrustCopies,          // what comes from another host is not compared with its hashes
  kHideBlindness,        // a node that cannot see storage speaks as if it were empty
  kHideCopies,           // a node says nothing of its copies
  kRestartInterval,      // each world counts the interval to storage anew
  kRepeatForces,         // a stop that is asked for twice is taken for one without grace
  kTwiceIsNow,           // whoever is told twice to stop does not wait for storage
  kForgetEqual,          // a node does not tell whose files equal its own
  kForgetBranch,         // a script that goes back does not begin a branch
  kCallItDone,           // a job that ends without storage is said to have ended well
  kHideOwnParameters,    // a commit does not tell that ranks have parameters of their own
  kBlameWaiter,          // what a node finds of one rank it tells under another rank's number
  kHurriedEnd,           // an agent does not wait for storage when its job ends
};

struct CanaryEntry {
  Canary canary;
  std::string_view name;
  std::string_view bug;
  // The kinds of faults that show it, where all together would need hundreds of seeds; empty: all.
  std::span<const std::string_view> faults = {};
};

std::span<const CanaryEntry> AllCanaries();
std::optional<Canary> CanaryByName(std::string_view name);
std::string_view CanaryName(Canary canary);

}  // namespace paceline::sim
