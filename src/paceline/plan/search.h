#pragma once

// The fastest plan that fits, among all shapes (axis/) and all cuts of each (replicas.h,
// pipeline_cut.h).
//
// Shapes are tried in the order of their lower bounds, until a lower bound exceeds the best plan
// found. So the shapes that are left out are certainly slower. The work is limited by a number of
// states, never by time, so every host finds the same plan. If that number is not enough, the
// plan's `bound` is lower than its closed form, and the difference says how much better a plan
// might be.
//
// Plans whose closed forms differ by less than `near` are compared by simulation, which takes the
// order of unequal stages into account.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "paceline/model/plan.h"
#include "paceline/plan/scene.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

struct SearchLimits {
  uint64_t transitions = 250'000'000;  // of the dynamic programming, over all shapes
  double near = 1.05;
};

// Why there is no plan, in the four parts of an error.
struct NoPlan {
  std::string what;
  std::string where;
  std::string why;
  std::string fix;
  bool lacks_memory = false;  // else the wishes exclude every plan, or nothing can be planned
};

struct SearchReport {
  double closed = 0;  // the closed form of the best cut
  uint64_t shapes = 0;
  uint64_t looked_at = 0;
  uint64_t transitions = 0;
};

std::variant<ParallelPlan, NoPlan> ChoosePlan(const ModelSummary& model, const Cluster& cluster,
                                              const PlanWishes& wishes, SearchLimits limits = {},
                                              SearchReport* report = nullptr);

// A plan that fits, without its sentences; nothing if none does. Stops at the first one.
std::optional<ParallelPlan> AnyPlan(const ModelSummary& model, const Cluster& cluster,
                                    const PlanWishes& wishes, SearchLimits limits = {});
bool Fits(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes,
          SearchLimits limits = {});

// Says in one sentence why the plan does not have this value on an axis: what a plan with it costs,
// or why there is none.
std::string WhyNot(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes,
                   const ParallelPlan& chosen, AxisId axis, uint32_t value);

}  // namespace paceline::plan
