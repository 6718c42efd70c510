#pragma once

// A plan's stages as a table, for the commands that print plans.

#include <string>
#include <vector>

#include "paceline/cli/console/output.h"
#include "paceline/model/plan.h"

namespace paceline::cli {

void PrintStages(Output& out, const ParallelPlan& plan);

}  // namespace paceline::cli
