// The summary of a model, which a script or a checkpoint brings along.

#include <cstdint>

#include "paceline/plan/json.h"
#include "paceline/plan/search.h"
#include "parts.h"

namespace {

constexpr char kCluster[] =
    R"({"schema":"paceline.cluster/1","types":[{"name":"a","flops":1e12,"bandwidth":1e11,)"
    R"("launch":1e-4,"memory":1000000000},{"name":"b","flops":2e12,"bandwidth":1e11,)"
    R"("launch":1e-4,"memory":2000000000}],"groups":[{"type":"a","count":2},)"
    R"({"type":"b","count":1}],"node":2,"inner":{"seconds":1e-5,"bandwidth":1e10},)"
    R"("outer":{"seconds":1e-4,"bandwidth":1e9}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace plan = paceline::plan;
  const auto read = plan::ReadSummary(paceline::fuzz::AsText(data, size));
  if (!read.ok()) return 0;
  const std::string text = plan::PrintSummary(*read);
  const auto again = plan::ReadSummary(text);
  // Spaces left out, a number may still be printed longer than it was written.
  if (!again.ok()) {
    paceline::fuzz::Demand(text.size() > plan::kPlanTextMax, "what we write we read");
    return 0;
  }
  paceline::fuzz::Demand(plan::PrintSummary(*again) == text, "and it is the same");
  const plan::SearchLimits limits = {.transitions = 100'000, .near = 1};
  const paceline::Cluster cluster = *plan::ReadCluster(kCluster);
  const auto answer = plan::ChoosePlan(*read, cluster, {.global_batch = 6, .only = {}}, limits);
  if (const auto* chosen = std::get_if<paceline::ParallelPlan>(&answer)) {
    paceline::fuzz::Demand(plan::CheckPlan(*chosen, *read, cluster).ok(), "the plan is sound");
  }
  return 0;
}
