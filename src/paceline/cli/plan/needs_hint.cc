#include "paceline/cli/plan/needs_hint.h"

#include <utility>
#include <variant>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/search.h"

namespace paceline::cli {
namespace {

constexpr int kSearchesMost = 3;

std::string OnlyText(const plan::PlanWishes& wishes) {
  std::vector<std::string> parts;
  for (size_t axis = 0; axis < plan::kAxisCount; ++axis) {
    for (const uint32_t value : wishes.only[axis]) {
      const auto id = static_cast<plan::AxisId>(axis);
      parts.push_back(Concat(plan::Axes()[axis]->alias, "=", plan::ValueText(id, value)));
    }
  }
  return JoinWith(parts, ",");
}

}  // namespace

std::string OnlyWithoutNeeds(const PlanInputs& inputs, std::vector<plan::PlanNeed> needs) {
  plan::PlanWishes wishes = inputs.wishes;
  for (int search = 0; search < kSearchesMost; ++search) {
    for (const plan::PlanNeed& need : needs) {
      const auto leaves_out = ParseAxisValue(need.only, "--only");
      if (!leaves_out.ok()) return "";  // no value of an axis leaves it out
      wishes.OnlyOf(leaves_out->axis) = {leaves_out->value};
    }
    const auto answer = plan::ChoosePlan(inputs.model, inputs.cluster, wishes);
    const auto* found = std::get_if<ParallelPlan>(&answer);
    if (found == nullptr) return "";
    needs = plan::NeedsOf(inputs.model_type, *found);
    if (needs.empty()) return OnlyText(wishes);
  }
  return "";
}

}  // namespace paceline::cli
