#pragma once

// Makes a plan of a shape and its cut: the layers and samples of each rank, and the predicted cost.

#include "paceline/model/plan.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/replicas.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

ParallelPlan PlanOf(const Scene& scene, const Shape& shape, const ReplicaCut& cut);
ParallelPlan PlanOf(const Scene& scene, const Shape& shape, const PipelineCut& cut);

// Seconds of a step of one stage with equal shares. The difference to the plan's own time is the
// gain of unequal shares.
double SecondsWithEqualShares(const Scene& scene, const Shape& shape, const ReplicaCut& cut);

}  // namespace paceline::plan
