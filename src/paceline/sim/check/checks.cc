#include "paceline/sim/check/all.h"
#include "paceline/sim/check/check.h"

namespace paceline::sim {
namespace {

constexpr CheckEntry kChecks[] = {
    {"one_world", "no two live processes hold one rank, and each holds its node's seat",
     MakeOneWorld},
    {"stale_never_acts",
     "a node never starts ranks of a generation older than the newest it has met",
     MakeStaleNeverActs},
    {"journal_folds", "the fold of all records equals the live state, after every event",
     MakeJournalFolds},
    {"no_ack_lost", "what took effect was durable before, and still exists after a restart",
     MakeNoAckLost},
    {"evidence",
     "a node counts as lost or evicted, and a rank as failed, only if that is true or it is silent",
     MakeEvidence},
    {"ladder_ends", "recoveries without progress are limited, and no world follows a stop",
     MakeLadderEnds},
    {"restore_newest", "every world starts from the newest step that can still be read",
     MakeRestoreNewest},
    {"no_lost_commit", "a checkpoint that was reported complete stays whole until a newer one is",
     MakeNoLostCommit},
    {"done_is_stored", "exit code 0 means that the last saved step is in storage",
     MakeDoneIsStored},
    {"stored_on_time", "new worlds and masters do not reset the interval to storage",
     MakeStoredOnTime},
    {"own_parameters", "no world of another size forms if ranks have parameters of their own",
     MakeOwnParameters},
    {"grace_kept",
     "a rank that was asked to end keeps its grace period unless a forced stop was requested",
     MakeGraceKept},
    {"bounded", "records, effects, notes and queues stay under their limits", MakeBounded},
    {"no_orphans", "at the end, no process is outside of the world", MakeNoOrphans},
    {"silence_noticed",
     "a node that is silent for ever is lost in time; the job goes on or waits for nodes",
     MakeSilenceNoticed},
    {"culprit_right", "a rank is restarted for a hang only if it was stopped", MakeCulpritRight},
    {"no_two_worlds",
     "a node that has met a newer master obeys no older one, and no older master commits",
     MakeNoTwoWorlds},
    {"newest_step_kept",
     "the newest complete step in the survivors' memory outlives the master's host",
     MakeNewestStepKept},
    {"leaves_in_time", "a node under notice has left before its platform ends it",
     MakeLeavesInTime},
    {"fits", "no world forms whose devices are known not to hold the model", MakeFits},
    {"size_kept", "no world forms with more nodes than the user chose", MakeSizeKept},
    {"slow_right", "a rank is called slow only if it is", MakeSlowRight},
    {"no_flapping", "only a slow host loses its ranks to a spare, and only once in an hour",
     MakeNoFlapping},
    {"checked_first", "no rank starts on a host that has not passed the checks of the user",
     MakeCheckedFirst},
    {"links_right", "a host is taken out for its links only if they are dead, and told if they are",
     MakeLinksRight},
    {"ledger_right", "the ledger of the journal has the times that were", MakeLedgerRight},
    {"memory_met", "a leak is met before the kernel kills for it, and no limit is above the most",
     MakeMemoryMet},
    {"silence_waited_for",
     "no node is declared lost while waiting costs less than going on without it",
     MakeSilenceWaitedFor},
};

}  // namespace

std::span<const CheckEntry> AllChecks() { return kChecks; }

}  // namespace paceline::sim
