#pragma once

// The end of a job: a stop that was asked for or decided, until no rank is left.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// Beyond the grace, a node that does not report its ranks' end is not waited for any longer.
inline constexpr Duration kFinishPatience = Duration::Seconds(10);

void OnStopRequested(Turn& turn, const StopRequested& event);

// A user started an ended job again. Goes on with one that failed or was stopped, with a full
// budget, and with one whose last step is not in storage. Does nothing to one that has done its
// work.
void ResumeEnded(Turn& turn);

// Records the end when every node is empty, gone, or too late. True: recorded.
bool NoteFinish(Turn& turn);

Instant FinishDeadline(const JobState& state);

}  // namespace paceline::core
