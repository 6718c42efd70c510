#pragma once

// The passes of all layers on all types, for one way to divide layers and one choice of
// recomputation; and lower bounds for any pipeline over these devices.

#include <cstdint>
#include <vector>

#include "paceline/plan/cost.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

class PassTable {
 public:
  // Only `tensor`, `sequence` and `recompute` of the shape are used.
  PassTable(const Scene& scene, const Shape& shape);

  const PassTime& At(uint32_t type, uint32_t layer) const { return passes_[type][layer]; }
  uint32_t layers() const { return static_cast<uint32_t>(passes_[0].size()); }
  uint32_t types() const { return static_cast<uint32_t>(passes_.size()); }

 private:
  std::vector<std::vector<PassTime>> passes_;  // by type, by layer
};

// Samples of a micro-batch, if all replicas have equal shares.
double MicroBatchOf(const Scene& scene, const Shape& shape);

// Lower bounds of the two terms of a pipeline's step (pipeline_cut.h): `first` as if layers could
// be divided freely among the fastest stages, `sum` as if each layer were on the type that is
// fastest for it. Infinite if the devices make too few stages.
struct PipelineBound {
  double first = 0;
  double sum = 0;
  double seconds() const { return first + sum; }
};
PipelineBound BoundOf(const Scene& scene, const PassTable& passes, const Shape& shape);

}  // namespace paceline::plan
