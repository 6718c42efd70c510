// A cluster, which a file on a command line or a profile brings along.

#include <cstdint>

#include "paceline/plan/json.h"
#include "paceline/plan/search.h"
#include "parts.h"

namespace {

constexpr char kModel[] =
    R"({"schema":"paceline.model/1","name":"m","precision":"fp32","bytes":{"weight":4,)"
    R"("gradient":4,"optimizer":8,"compute":4},"layers":[{"name":"l.{}","count":4,"flops":1e9,)"
    R"("parameters":1000000,"saved":1000,"output":100}]})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace plan = paceline::plan;
  const auto read = plan::ReadCluster(paceline::fuzz::AsText(data, size));
  if (!read.ok()) return 0;
  const std::string text = plan::PrintCluster(*read);
  const auto again = plan::ReadCluster(text);
  if (!again.ok()) {
    paceline::fuzz::Demand(text.size() > plan::kPlanTextMax, "what we write we read");
    return 0;
  }
  paceline::fuzz::Demand(plan::PrintCluster(*again) == text, "and it is the same");
  const plan::SearchLimits limits = {.transitions = 100'000, .near = 1};
  const paceline::ModelSummary model = *plan::ReadSummary(kModel);
  const auto answer = plan::ChoosePlan(model, *read, {.global_batch = 6, .only = {}}, limits);
  if (const auto* chosen = std::get_if<paceline::ParallelPlan>(&answer)) {
    paceline::fuzz::Demand(plan::CheckPlan(*chosen, model, *read).ok(), "the plan is sound");
  }
  return 0;
}
