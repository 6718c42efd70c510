#pragma once

// The sentences of a plan. Every number in them is in the plan itself.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/plan.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

std::string SecondsText(double seconds);          // "1.92 s", "340 ms"
std::string PercentText(double ratio);            // 0.314 → "31 %"
std::string MemoryText(double bytes);             // "78.0 GiB"
std::string ParametersText(uint64_t parameters);  // "8.03 billion parameters", "1472 parameters"

Shape ShapeOf(const ParallelPlan& plan);
uint32_t ChunksOf(const ParallelPlan& plan);  // chunks of layers of each stage
uint32_t LayersOf(const PlanStage& stage);

// "data 2, sharded state": the shape of a plan in words.
std::string WordsOf(const ParallelPlan& plan);

// Says why `best` was chosen. `equal_shares`: seconds of its step with equal shares; 0 if its
// shares are equal. `next`: the best plan of another kind, if any fits.
std::string BecauseOf(const Scene& scene, const ParallelPlan& best, double equal_shares,
                      const ParallelPlan* next);

// Says why `other`, which fits, was not chosen.
std::string SlowerBecause(const ParallelPlan& other, const ParallelPlan& best);

// What the search would choose without the wishes for these axes: "; without the wish for pipeline,
// data 2 would take 31 % less".
std::string WithoutWishes(const ParallelPlan& best, const std::vector<std::string_view>& axes,
                          const ParallelPlan& free);

}  // namespace paceline::plan
