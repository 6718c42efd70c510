#pragma once

// The best cut of the layers into the stages of a pipeline over unequal devices, exactly.
//
// A stage of type k from layer i to j takes c seconds for a micro-batch, hands over in x seconds,
// and has y seconds of its own at the end of a step. A step of m micro-batches then takes
//
//   max over stages of ((m - 1) c + y)  +  sum over stages of (c + x)
//
// This is the time of 1F1B and GPipe except for the order of unequal stages, which `Simulate` adds.
// For a limit T of the first term, dynamic programming over (stages used of each type, first layer)
// finds the least sum. It starts at the last stage, because the number of stages that follow
// decides how many micro-batches are in flight, and so what fits. T decreases from one solution to
// the next, as long as a better one is possible: `step ≥ sum(T) + least first term`.

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/plan/cost.h"
#include "paceline/plan/pass_table.h"
#include "paceline/plan/scene.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {

struct CutStage {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t type = 0;
};

struct PipelineCut {
  std::vector<CutStage> stages;
  double seconds = 0;  // by the formula above
};

struct CutSearch {
  std::vector<PipelineCut> cuts;  // cuts found on the way that are fast enough, the best last
  double bound = 0;               // no cut of this shape is faster
  bool is_complete = true;        // false: the budget ended first
};

// The best cut of `shape` that takes less than `below` seconds, and others that take less than
// `slack` times as long: the simulation may find one of them better. `budget` is the number of
// transitions that may be tried; it is reduced by those that were.
CutSearch CutPipeline(const Scene& scene, const PassTable& passes, const Shape& shape, double below,
                      double slack, uint64_t* budget);

// The cost of a stage by the formula above; for `Simulate` and the brute force in tests.
struct StageCost {
  double pass = 0;      // c
  double forward = 0;   // the part of `pass` for the forward pass
  double weight = 0;    // the part of `pass` that may be done later: gradients of weights
  double sums = 0;      // the part of `pass` for sums over the ranks that share a layer
  double transfer = 0;  // x / 2: there, and back again
  double after = 0;     // y
  double exchange = 0;  // the part of `after` for gradients
  StageMemory memory;
};
StageCost CostOfStage(const Scene& scene, const Shape& shape, const CutStage& stage);

// The formula above, for any cut.
double ClosedSeconds(const Scene& scene, const Shape& shape, const PipelineCut& cut);

// A stage's cost, for `Simulate`.
StageTime TimeOf(const StageCost& cost);

inline PipelineSize SizeOf(const Shape& shape) {
  return {shape.pipeline, shape.micro_batches, shape.virtual_stages};
}

// Passes that the stage at `place` has in flight at once, at most.
inline uint32_t InFlightOf(const Shape& shape, uint32_t place) {
  return Schedules()[shape.schedule]->in_flight(place, SizeOf(shape));
}

// Whether only a simulation tells how long a step of the shape takes.
inline bool IsSimulated(const Shape& shape) {
  return shape.virtual_stages > 1 || Schedules()[shape.schedule] == &kZeroBubble;
}

// A whole cut, for `Simulate`. With interleaved stages, `cut.stages` has the virtual stages.
struct CutCosts {
  std::vector<StageTime> times;  // of each virtual stage
  std::vector<double> bytes;     // of a rank of each stage, at most
  double communication = 0;      // seconds that passes do not hide, over all stages
};
CutCosts CostsOfCut(const Scene& scene, const Shape& shape, const PipelineCut& cut);

// Bytes of the `shape.pipeline` ranks with the most memory that can be stages of one replica.
double RoomOf(const Scene& scene, const Shape& shape);

// Returns how many stages of one replica `count` devices of a type can fill.
inline uint32_t StagesOf(uint32_t count, const Shape& shape) {
  return count / (shape.data * shape.tensor);
}

}  // namespace paceline::plan
