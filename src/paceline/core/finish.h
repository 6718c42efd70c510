#pragma once

// The end of a job, by request or by its own decision, until no rank is left.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// Exit code of a job that its platform ends after a notice. Its newest step is in storage, and the
// next master of the job goes on from there.
inline constexpr int kExitStoppedSaved = 10;
// Exit codes of an agent.
inline constexpr int kExitUnreachable = 3;    // it gave up its search for the master
inline constexpr int kExitNotAuthorised = 4;  // the master refused it
inline constexpr int kExitFenced =
    92;  // its node was taken out, or a later incarnation has the place

// After the grace, how long a node may still report that its ranks ended.
inline constexpr Duration kFinishPatience = Duration::Seconds(10);

void OnStopRequested(Turn& turn, const StopRequested& event);

// A user restarted an ended job. Continues a failed or stopped one with a full budget, and one
// whose last step is not in storage. Does nothing if the job has completed.
void ResumeEnded(Turn& turn);

// What a resumed job does whose ranks had all done their work, and whose last step is not in
// storage.
enum class StoreOnly {
  kNo,     // the job needs a world: it is another job, or no host has that step in memory any more
  kWaits,  // for the hosts that have it; Watch::pending says for which
  kEnds,   // recorded: the job ends again, and an end brings the step to storage, without ranks
};
StoreOnly TryToStoreOnly(Turn& turn);

// Records the end when every node is empty, gone, or too late. True: recorded.
bool NoteFinish(Turn& turn);

Instant FinishDeadline(const JobState& state);

}  // namespace paceline::core
