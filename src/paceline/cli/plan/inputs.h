#pragma once

// What `paceline plan` plans: a model by name, from a config.json, or from a script that runs up to
// its call of `parallelize`; and a cluster, in a line or from a file.

#include <string>

#include "paceline/cli/command.h"
#include "paceline/cli/console/error.h"
#include "paceline/model/plan.h"
#include "paceline/plan/wishes.h"

namespace paceline::cli {

// Why a script cannot be run, in four parts; `fix` is a command line that would do. Nothing: there
// is a file.
Check ScriptIsThere(const std::string& script, std::string fix);

struct PlanInputs {
  ModelSummary model;
  Cluster cluster;
  plan::PlanWishes wishes;
  // Of a model by name or from a config.json, as transformers calls it: "llama". "": not known.
  std::string model_type = {};
};

Result<PlanInputs> ReadPlanInputs(Invocation& invocation);

// "tp=8": an axis by its name or alias, and a value. PL-E010 names the axes.
struct AxisValue {
  plan::AxisId axis = plan::AxisId::kPipeline;
  uint32_t value = 0;
};
Result<AxisValue> ParseAxisValue(std::string_view text, const std::string& flag);

}  // namespace paceline::cli
