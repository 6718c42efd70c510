#pragma once

// Small changes of a cut that make its simulated step shorter. The closed form of pipeline_cut.h
// ignores the order of unequal stages; the simulation does not.

#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

// Seconds of a simulated step; kNever if a stage does not fit.
double SimulatedSeconds(const Scene& scene, const Shape& shape, const PipelineCut& cut);

// Repeats the best change until none helps, and returns the cut. A change moves one layer to a
// neighbouring stage, or exchanges the device types of two stages.
PipelineCut Improved(const Scene& scene, const Shape& shape, PipelineCut cut);

// A cut that takes as long and needs about equal parts of each device's memory: borders move as
// long as this divides the memory more evenly.
PipelineCut Evened(const Scene& scene, const Shape& shape, PipelineCut cut);

}  // namespace paceline::plan
