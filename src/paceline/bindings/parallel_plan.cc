// _native.choose_plan, check_plan, plan_digest, plan_needs, library_plans and schedule_orders: the
// parallel planner, JSON texts in and out
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
#include "paceline/plan/schedule/schedule.h"
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
      if (!type.lacks.empty()) continue;  // no plan of it is carried out
      plans.emplace(type.name, std::pair(type.has_tensor_plan, type.has_pipeline_plan));
    }
  }
  return plans;
}

// For each stage its passes in order, such as "F0.3": forward of chunk 0 and micro-batch 3. B is a
// whole backward pass, I that of inputs, W that of weights.
std::vector<std::vector<std::string>> OrdersOf(const std::string& name, uint32_t stages,
                                               uint32_t micro_batches, uint32_t chunks) {
  const auto found = plan::FindSchedule(name);
  const plan::PipelineSize size = {stages, micro_batches, chunks};
  if (!found || stages == 0 || micro_batches == 0 || chunks == 0) {
    Refuse("there is no such schedule", name, "its name or a size is not known", "\"1f1b\"");
  }
  const plan::Schedule& schedule = *plan::Schedules()[*found];
  if (const std::string why = schedule.refuses(size); !why.empty()) {
    Refuse("the schedule has no such size", name, why, "another number of micro-batches");
  }
  std::vector<std::vector<std::string>> orders(stages);
  for (uint32_t stage = 0; stage < stages; ++stage) {
    for (const plan::Pass& pass : schedule.order(stage, size)) {
      const char letter = "FBIW"[static_cast<size_t>(pass.kind)];
      orders[stage].push_back(Concat(std::string(1, letter), pass.chunk, ".", pass.micro_batch));
    }
  }
  return orders;
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
  module.def("schedule_orders", &OrdersOf, nanobind::arg("name"), nanobind::arg("stages"),
             nanobind::arg("micro_batches"), nanobind::arg("chunks"));
}

}  // namespace paceline::bindings
