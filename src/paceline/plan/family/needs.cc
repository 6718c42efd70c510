#include "paceline/plan/family/needs.h"

#include "paceline/base/text.h"
#include "paceline/plan/family/family.h"

namespace paceline::plan {

std::vector<PlanNeed> NeedsOf(std::string_view model_type, const ParallelPlan& plan) {
  std::vector<PlanNeed> needs;
  const ModelType* type = FindModelType(model_type);
  if (type == nullptr) return needs;
  const auto add = [&](std::string_view kind, std::string_view only) {
    needs.push_back({.what = Concat("a ", kind, " plan for ", type->name,
                                    " models, which transformers does not have"),
                     .only = only});
  };
  if (!type->lacks.empty()) {
    needs.push_back({.what = Concat(type->lacks, " for ", type->name,
                                    " models, which paceline does not carry out"),
                     .only = ""});
    return needs;
  }
  if (plan.tensor > 1 && !type->has_tensor_plan) add("tensor", "tp=1");
  if (plan.stages.size() > 1 && !type->has_pipeline_plan) add("pipeline", "pp=1");
  return needs;
}

std::vector<std::string> NeedsTexts(const std::vector<PlanNeed>& needs) {
  std::vector<std::string> texts;
  for (const PlanNeed& need : needs) texts.push_back(need.what);
  return texts;
}

}  // namespace paceline::plan
