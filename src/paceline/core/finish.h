#pragma once

// The end of a job: a stop that was asked for or decided, until no rank is left.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// Beyond the grace, a node that does not report its ranks' end is not waited for any longer.
inline constexpr Duration kFinishPatience = Duration::Seconds(10);

void OnStopRequested(Turn& turn, const StopRequested& event);

// Records the end when every node is empty, gone, or too late. True: recorded.
bool NoteFinish(Turn& turn);

Instant FinishDeadline(const JobState& state);

}  // namespace paceline::core
