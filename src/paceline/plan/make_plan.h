#pragma once

// A plan from a shape and its cut: which ranks do what, and what it is predicted to cost.

#include "paceline/model/plan.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/replicas.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

ParallelPlan PlanOf(const Scene& scene, const Shape& shape, const ReplicaCut& cut);
ParallelPlan PlanOf(const Scene& scene, const Shape& shape, const PipelineCut& cut);

// What each replica of one stage would take for a step with equal shares, in seconds; above the
// plan's own by what the unequal ones gain.
double SecondsWithEqualShares(const Scene& scene, const Shape& shape, const ReplicaCut& cut);

}  // namespace paceline::plan
