#pragma once

// Bugs planted on purpose around the core. A run with one of them must fail, which proves that the
// checks find this kind of bug. They are in the simulated hosts, never in the core.

#include <optional>
#include <span>
#include <string_view>

namespace paceline::sim {

enum class Canary {
  kNone,
  kForgetToFence,        // a node reports old ranks as killed but lets them live
  kDropRecord,           // a record of a batch is not written
  kEffectBeforeDurable,  // effects run while their records are still in memory
  kDoubleRank,           // the starter forks twice for one order
  kIgnoreSilence,        // the master never looks at its deadline
  kTrustStreams,         // an open stream counts as a sign of life
  kWrongSeat,            // a node starts the ranks of another seat
  kStaleAssignment,      // an agent acts on an older assignment that arrives late
  kLoseExit,             // an agent is not told that its rank died
  kBlameNeighbour,       // an exit is reported under another rank's number
  kForgetRecord,         // a restarted master lacks the last durable record
  kClockRunsBack,        // the master's clock may start before the journal's end
  kHoldExits,            // a rank that was told to end lives on
  kHastySilence,         // the master gives up a silent node as early as possible
  kWildClock,            // a step depends on something that the seed does not control
  kForgetHold,           // an agent does not tell its ranks which image must stay
  kMixSteps,             // a rank restores any image there, not the decided one
  kCommitUnchecked,      // a checkpoint is committed without a check of its shards
  kPruneNewest,          // retention removes the newest
  kTrustCopies,          // an image from another host is not compared with its hashes
  kHideBlindness,        // a node that cannot see storage reports it as empty
  kHideCopies,           // a node does not report its copies
  kRestartInterval,      // each world restarts the interval to storage
  kRepeatForces,         // a repeated request to stop counts as one without grace
  kTwiceIsNow,           // after a repeated request to stop, storage is not awaited
  kForgetEqual,          // a node does not report whose files equal its own
  kForgetBranch,         // a script that goes back does not start a branch
  kCallItDone,           // a job that ends without storage reports success
  kHideOwnParameters,    // a commit does not report that ranks have their own parameters
  kBlameFast,            // a node reports the step times of one rank as another rank's
  kBoastMemory,          // a rank reports devices with more memory than they have
  kBlameWaiter,          // a node reports one rank's evidence under another rank's number
  kTrustOldMaster,       // a node follows a master of an older term
  kForgetImages,         // a node drops its images when another master comes
  kForgetNotice,         // the master does not hear that a platform takes a node away
  kOtherSize,            // the master hears another size than the user typed
  kSkipChecks,           // an agent says that its host passed its checks, whatever they said
  kBlameHost,            // the ranks of one host are slow, and another host is called slow
  kSwapPhases,           // the time of the forward pass is told as evaluation, and the reverse
  kPraiseLinks,          // an agent says that a dead link carried all bytes
  kForgetRaise,          // an agent does not raise the limit of its node's memory
  kHurriedEnd,           // an agent does not wait for storage when its job ends
};

struct CanaryEntry {
  Canary canary;
  std::string_view name;
  std::string_view bug;
  // The kinds of faults that show the bug, if with all kinds it would take hundreds of seeds;
  // empty: all.
  std::span<const std::string_view> faults = {};
};

std::span<const CanaryEntry> AllCanaries();
std::optional<Canary> CanaryByName(std::string_view name);
std::string_view CanaryName(Canary canary);

}  // namespace paceline::sim
