#pragma once

// Parallel plans, as rank 0 tells of them: recorded, so that people see which plan runs and a world
// is only formed if its devices hold the model (room.h).

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

void OnPlanReported(Turn& turn, const PlanReported& event);

}  // namespace paceline::core
