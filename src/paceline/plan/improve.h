#pragma once

// Small changes of a cut that make its simulated step shorter. The closed form of pipeline_cut.h
// does not know in which order unequal stages stand, and the simulation does.

#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

// Seconds of a simulated step; kNever if a stage does not fit.
double SimulatedSeconds(const Scene& scene, const Shape& shape, const PipelineCut& cut);

// The cut after the best moves of one layer between neighbours and the best exchanges of two
// stages' types, one after the other, until none helps.
PipelineCut Improved(const Scene& scene, const Shape& shape, PipelineCut cut);

}  // namespace paceline::plan
