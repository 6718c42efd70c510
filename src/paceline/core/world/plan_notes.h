#pragma once

// Parallel plans, as rank 0 tells of them: recorded, so that people see which plan runs.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

void OnPlanReported(Turn& turn, const PlanReported& event);

}  // namespace paceline::core
