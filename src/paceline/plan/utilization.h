#pragma once

// How well a plan uses its devices: the arithmetic of the model against what the devices could do.

#include "paceline/model/plan.h"

namespace paceline::plan {

// Sets `device_flops` and `utilization` of the plan's predicted cost from its step time. A step
// counts three forward passes of each sample: one forward and, as two of them, the backward. A pass
// that is recomputed does not count. All devices of the cluster count, also those without work.
void AddUtilization(const ModelSummary& model, const Cluster& cluster, ParallelPlan* plan);

// Operations of a step of the model, as above.
double StepFlops(const ModelSummary& model, uint64_t global_batch);

// "398 TFLOP/s a device, 40 % of its peak (MFU)"; "" if it is not known.
std::string UtilizationText(const PlanCost& cost);

}  // namespace paceline::plan
