#pragma once

// The JSON texts of docs/formats/parallel_plan.md. A reader refuses (kInvalid) a text that the page
// does not allow, with a sentence that names the place. A value that was read can be given to the
// search without further checks.

#include <string>
#include <string_view>

#include "paceline/base/result.h"
#include "paceline/model/plan.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

// The largest whole number that every JSON parser keeps exact.
inline constexpr uint64_t kWholeMax = (uint64_t{1} << 53) - 1;
inline constexpr size_t kPlanTextMax = 64 << 10;    // of a summary, a cluster and wishes
inline constexpr size_t kChosenTextMax = 32 << 20;  // of a plan, which names each rank

Result<ModelSummary> ReadSummary(std::string_view text);
Result<Cluster> ReadCluster(std::string_view text);
Result<ParallelPlan> ReadPlan(std::string_view text);
Result<PlanWishes> ReadWishes(std::string_view text);

std::string PrintSummary(const ModelSummary& summary);
std::string PrintCluster(const Cluster& cluster);
std::string PrintPlan(const ParallelPlan& plan);

// 16 hexadecimal digits.
std::string DigestOf(const ModelSummary& summary);
std::string DigestOf(const ParallelPlan& plan);

// Checks a plan against the model and the cluster. Fails if layers are left out, ranks are named
// twice, or the shares do not add up to a step.
Result<void> CheckPlan(const ParallelPlan& plan, const ModelSummary& summary,
                       const Cluster& cluster);

}  // namespace paceline::plan
