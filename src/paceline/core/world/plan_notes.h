#pragma once

// Records the parallel plans that rank 0 reports. People see which plan runs. A world is formed
// only if its devices hold the model (room.h).

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

void OnPlanReported(Turn& turn, const PlanReported& event);

}  // namespace paceline::core
