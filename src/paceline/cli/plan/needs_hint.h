#pragma once

// The flag that leads from a plan with needs to one without.

#include <string>
#include <vector>

#include "paceline/cli/plan/inputs.h"
#include "paceline/plan/family/needs.h"

namespace paceline::cli {

// The value of `--only` with which the best plan needs nothing: the user's own values, and those of
// the needs in place of them on their axes. It was searched with. "": none was found.
std::string OnlyWithoutNeeds(const PlanInputs& inputs, std::vector<plan::PlanNeed> needs);

}  // namespace paceline::cli
