#pragma once

// How far the job is from the size that a user chose (`paceline scale`). world/resize.h changes it.

#include "paceline/core/job_state.h"

namespace paceline::core {

// True if the world has more nodes than the next one may have.
bool IsAboveChosen(const JobState& state);

// True if the next step should go to storage at once, because the world shrinks when one is there.
// One step is enough.
bool HurriesStorage(const JobState& state);

}  // namespace paceline::core
