// _native.choose_plan, check_plan, plan_digest, plan_needs and library_plans: the parallel planner,
// JSON texts in and out
// (docs/formats/parallel_plan.md).
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/bindings/bindings.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/family/needs.h"
#include "paceline/plan/json.h"
#include "paceline/plan/search.h"

namespace paceline::bindings {
namespace {

// The four parts of an error, a line each; paceline.parallel makes an exception of them.
[[noreturn]] void Refuse(std::string_view what, std::string_view where, std::string_view why,
                         std::string_view fix) {
  const std::string text = Concat(what, "\n", where, "\n", why, "\n", fix);
  throw nanobind::value_error(text.c_str());
}

template <typename T>
T Read(Result<T> result, std::string_view name) {
  if (!result.ok()) {
    Refuse(Concat(name, " cannot be read"), name, result.failure().message,
           "docs/formats/parallel_plan.md says what it may contain");
  }
  return std::move(*result);
}

std::string ChosenPlan(const std::string& summary, const std::string& cluster,
                       const std::string& wishes) {
  const ModelSummary model = Read(plan::ReadSummary(summary), "the model's summary");
  const Cluster devices = Read(plan::ReadCluster(cluster), "the cluster");
  const plan::PlanWishes wanted = Read(plan::ReadWishes(wishes), "the wishes");
  const auto answer = [&] {
    nanobind::gil_scoped_release released;
    return plan::ChoosePlan(model, devices, wanted);
  }();
  if (const auto* none = std::get_if<plan::NoPlan>(&answer)) {
    Refuse(none->what, none->where, none->why, none->fix);
  }
  return plan::PrintPlan(std::get<ParallelPlan>(answer));
}

void CheckedPlan(const std::string& text, const std::string& summary, const std::string& cluster) {
  const ParallelPlan chosen = Read(plan::ReadPlan(text), "the plan");
  const ModelSummary model = Read(plan::ReadSummary(summary), "the model's summary");
  const Cluster devices = Read(plan::ReadCluster(cluster), "the cluster");
  const Result<void> sound = plan::CheckPlan(chosen, model, devices);
  if (sound.ok()) return;
  Refuse("the plan does not fit the model and the devices", "the plan", sound.failure().message,
         "leave plan= out, so that one is made for them");
}

std::string DigestOfPlan(const std::string& text) {
  return plan::DigestOf(Read(plan::ReadPlan(text), "the plan"));
}

std::vector<std::string> NeedsOfPlan(const std::string& text, const std::string& model_type) {
  const ParallelPlan chosen = Read(plan::ReadPlan(text), "the plan");
  return plan::NeedsTexts(plan::NeedsOf(model_type, chosen));
}

// By model type: whether transformers has a tensor plan and a pipeline plan for it.
std::map<std::string, std::pair<bool, bool>> LibraryPlans() {
  std::map<std::string, std::pair<bool, bool>> plans;
  for (const plan::Family* family : plan::Families()) {
    for (const plan::ModelType& type : family->types) {
      plans.emplace(type.name, std::pair(type.has_tensor_plan, type.has_pipeline_plan));
    }
  }
  return plans;
}

}  // namespace

void BindParallelPlan(nanobind::module_& module) {
  module.def("choose_plan", &ChosenPlan, nanobind::arg("summary"), nanobind::arg("cluster"),
             nanobind::arg("wishes"));
  module.def("check_plan", &CheckedPlan, nanobind::arg("plan"), nanobind::arg("summary"),
             nanobind::arg("cluster"));
  module.def("plan_digest", &DigestOfPlan, nanobind::arg("plan"));
  module.def("plan_needs", &NeedsOfPlan, nanobind::arg("plan"), nanobind::arg("model_type"));
  module.def("library_plans", &LibraryPlans);
}

}  // namespace paceline::bindings
