#include "paceline/sim/check/all.h"
#include "paceline/sim/check/check.h"

namespace paceline::sim {
namespace {

constexpr CheckEntry kChecks[] = {
    {"one_world", "no two live processes hold one rank, and each holds its node's seat",
     MakeOneWorld},
    {"stale_never_acts", "a node never starts ranks of an older generation than it knew",
     MakeStaleNeverActs},
    {"journal_folds", "the fold of all records equals the live state, after every event",
     MakeJournalFolds},
    {"no_ack_lost", "what took effect was durable before, and is there after a restart",
     MakeNoAckLost},
    {"evidence", "a node is lost or evicted, and a rank failed, only when it is so or silent",
     MakeEvidence},
    {"ladder_ends", "recoveries without progress are few, and nothing follows a stop",
     MakeLadderEnds},
    {"restore_newest", "no world starts behind the newest step that can still be read",
     MakeRestoreNewest},
    {"no_lost_commit", "a checkpoint that was reported complete stays whole until a newer one is",
     MakeNoLostCommit},
    {"done_is_stored", "exit code 0 means that the last saved step is in storage",
     MakeDoneIsStored},
    {"stored_on_time", "the interval to storage runs on, whatever worlds and masters begin",
     MakeStoredOnTime},
    {"own_parameters", "no world of another size forms where ranks have parameters of their own",
     MakeOwnParameters},
    {"grace_kept", "a rank that was asked to end keeps its grace unless someone asked for force",
     MakeGraceKept},
    {"bounded", "records, effects, notes and queues stay under their limits", MakeBounded},
    {"no_orphans", "when all is quiet, every process is in the world", MakeNoOrphans},
    {"silence_noticed", "who is silent for ever is out in time; the job goes on or waits for nodes",
     MakeSilenceNoticed},
    {"culprit_right", "a rank is restarted for a hang only if it was stopped", MakeCulpritRight},
    {"no_two_worlds", "who has met a newer master obeys no older one, and none commits after it",
     MakeNoTwoWorlds},
    {"newest_step_kept", "what survivors have whole in memory outlives the master's host",
     MakeNewestStepKept},
    {"slow_right", "a rank is called slow only if it is", MakeSlowRight},
    {"silence_waited_for", "nobody is given up for a silence that is shorter than what it costs",
     MakeSilenceWaitedFor},
};

}  // namespace

std::span<const CheckEntry> AllChecks() { return kChecks; }

}  // namespace paceline::sim
