#pragma once

// What a plan needs that the executor (paceline.parallel) or transformers does not have. A plan
// without needs is one that `parallelize` carries out.

#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/plan.h"

namespace paceline::plan {

struct PlanNeed {
  std::string what;       // "a tensor plan for gpt2 models, which transformers does not have"
  std::string_view only;  // the wish that leaves it out: "tp=1"; "": none does
};

// `model_type` as in config.json; "" or an unknown one: only the executor's own limits count.
std::vector<PlanNeed> NeedsOf(std::string_view model_type, const ParallelPlan& plan);

// The sentences of `NeedsOf`, for ParallelPlan::needs.
std::vector<std::string> NeedsTexts(const std::vector<PlanNeed>& needs);

}  // namespace paceline::plan
