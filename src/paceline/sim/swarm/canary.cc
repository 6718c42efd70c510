#include "paceline/sim/swarm/canary.h"

namespace paceline::sim {
namespace {

constexpr std::string_view kLossOfShards[] = {"lost_shard", "torn_shard"};
constexpr std::string_view kDamagedCopies[] = {"flipped_image", "kill_node"};
constexpr std::string_view kLossOfMemory[] = {"reboot"};
constexpr std::string_view kStorageRefuses[] = {"full_storage"};
constexpr std::string_view kShortWorlds[] = {"crash_rank"};
constexpr std::string_view kLossOfTheMaster[] = {"reboot_master_host"};
constexpr std::string_view kOldMasters[] = {"old_master_returns", "kill_agent"};
constexpr std::string_view kNextMasters[] = {"master_host_lost", "crash_rank"};
constexpr std::string_view kSilences[] = {"freeze_node", "partition_two_way", "blinking_link"};
constexpr std::string_view kTwice[] = {"signals_twice"};
constexpr std::string_view kFewerNodes[] = {"kill_node", "leave_node"};
constexpr std::string_view kStops[] = {"freeze_rank"};
constexpr std::string_view kNotices[] = {"notice"};
constexpr std::string_view kSizes[] = {"resize"};
constexpr std::string_view kLeaks[] = {"leak"};
constexpr std::string_view kBrokenHosts[] = {"bad_node"};
constexpr std::string_view kDeadPorts[] = {"dead_port"};
constexpr std::string_view kStorageUnseen[] = {"storage_outage", "stalled_storage"};

constexpr CanaryEntry kCanaries[] = {
    {Canary::kForgetToFence, "forget_to_fence", "old ranks are reported dead and live on"},
    {Canary::kDropRecord, "drop_record", "one record of the journal is not written"},
    {Canary::kEffectBeforeDurable, "effect_before_durable", "effects run before their records"},
    {Canary::kDoubleRank, "double_rank", "the starter forks twice for one order"},
    {Canary::kIgnoreSilence, "ignore_silence", "the master never looks at its deadline"},
    {Canary::kTrustStreams, "trust_streams", "an open stream counts as a sign of life"},
    {Canary::kWrongSeat, "wrong_seat", "a node starts the ranks of another seat"},
    {Canary::kStaleAssignment, "stale_assignment",
     "a node carries out an older assignment that comes late"},
    {Canary::kLoseExit, "lose_exit", "an agent never learns that its rank died"},
    {Canary::kBlameNeighbour, "blame_neighbour", "an exit is reported with another rank's number"},
    {Canary::kForgetRecord, "forget_record", "a new master misses the newest record"},
    {Canary::kClockRunsBack, "clock_runs_back", "the master's time starts before its journal ends"},
    {Canary::kHoldExits, "hold_exits", "a rank lives on after SIGKILL"},
    {Canary::kHastySilence, "hasty_silence",
     "a silent node is declared lost without regard to the cost", kSilences},
    {Canary::kBlameWaiter, "blame_waiter",
     "evidence of one rank is reported with another rank's number", kStops},
    {Canary::kBoastMemory, "boast_memory", "ranks report more memory than their devices have",
     kFewerNodes},
    {Canary::kBlameFast, "blame_fast", "the step times of one rank are reported for another"},
    {Canary::kWildClock, "wild_clock", "a delay does not follow from the seed"},
    {Canary::kRestartInterval, "restart_interval", "each world restarts the interval to storage",
     kShortWorlds},
    {Canary::kRepeatForces, "repeat_forces", "a repeated request to stop ends the grace period",
     kTwice},
    {Canary::kTwiceIsNow, "twice_is_now",
     "a process that gets two signals to stop does not wait for storage", kTwice},
    {Canary::kForgetEqual, "forget_equal", "a node does not report whose files equal its own",
     kLossOfTheMaster},
    {Canary::kForgetBranch, "forget_branch", "a script that goes back begins no branch"},
    {Canary::kForgetHold, "forget_hold", "ranks are not told which step to keep"},
    {Canary::kMixSteps, "mix_steps", "a rank restores another step than the decided one"},
    {Canary::kCommitUnchecked, "commit_unchecked",
     "a checkpoint is committed without checking its parts", kLossOfShards},
    {Canary::kPruneNewest, "prune_newest", "retention removes the newest checkpoint"},
    {Canary::kTrustCopies, "trust_copies",
     "parts from other hosts are accepted without comparing hashes", kDamagedCopies},
    {Canary::kHideCopies, "hide_copies", "a node does not report which copies it has",
     kLossOfMemory},
    {Canary::kHideBlindness, "hide_blindness",
     "a node that cannot reach storage reports it as empty", kStorageUnseen},
    {Canary::kCallItDone, "call_it_done",
     "an end without the last step in storage gets exit code 0", kStorageRefuses},
    {Canary::kHideOwnParameters, "hide_own_parameters",
     "a commit does not record that ranks have parameters of their own"},
    {Canary::kTrustOldMaster, "trust_old_master", "a node follows a master of an older term",
     kOldMasters},
    {Canary::kForgetImages, "forget_images", "a node drops its images when another master comes",
     kNextMasters},
    {Canary::kOtherSize, "other_size", "the master hears another size than the user typed", kSizes},
    {Canary::kForgetNotice, "forget_notice", "the master does not hear that a node is taken away",
     kNotices},
    {Canary::kSkipChecks, "skip_checks", "a host whose checks fail is reported as one that passed",
     kBrokenHosts},
    {Canary::kPraiseLinks, "praise_links", "a link that carries no bytes is reported as a good one",
     kDeadPorts},
    {Canary::kBlameHost, "blame_host", "the step times of a slow host are reported for another"},
    {Canary::kSwapPhases, "swap_phases", "work is told as evaluation, and evaluation as work"},
    {Canary::kForgetRaise, "forget_raise", "a node's limit of memory is not raised as ordered",
     kLeaks},
    {Canary::kHurriedEnd, "hurried_end", "agents do not wait for storage when the job ends"},
};

}  // namespace

std::span<const CanaryEntry> AllCanaries() { return kCanaries; }

std::optional<Canary> CanaryByName(std::string_view name) {
  for (const CanaryEntry& entry : kCanaries) {
    if (entry.name == name) return entry.canary;
  }
  return std::nullopt;
}

std::string_view CanaryName(Canary canary) {
  for (const CanaryEntry& entry : kCanaries) {
    if (entry.canary == canary) return entry.name;
  }
  return "none";
}

}  // namespace paceline::sim
