#pragma once

// Whale's hardware-aware rules (X. Jia et al., USENIX ATC 2022, section 3.3 and Algorithm 1): the
// baseline of the search. Its pipeline is also one of the cuts from which `Improved` starts, so
// that no plan is worse than it.

#include <optional>

#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

struct WhalePipeline {
  Shape shape;
  PipelineCut cut;
};

// One device a stage, the largest memory first, layers in proportion to speed. Nothing if the
// model has fewer layers than there are devices, or may not be cut there.
std::optional<WhalePipeline> WhaleCut(const Scene& scene);

// Seconds of a step, by our cost model, of the better of Whale's two plans: that pipeline, and data
// parallel over all devices with ratios by Algorithm 1. kNever if neither fits.
double WhaleSeconds(const Scene& scene);

}  // namespace paceline::plan
