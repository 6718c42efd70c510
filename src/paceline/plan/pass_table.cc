#include "paceline/plan/pass_table.h"

#include <algorithm>

#include "paceline/plan/pipeline_cut.h"

namespace paceline::plan {

PassTable::PassTable(const Scene& scene, const Shape& shape) {
  for (const DeviceType& type : scene.cluster.types) {
    auto& passes = passes_.emplace_back();
    for (const LayerRow& layer : scene.layers) {
      passes.push_back(PassOf(scene, layer, type, shape));
    }
  }
}

double MicroBatchOf(const Scene& scene, const Shape& shape) {
  return static_cast<double>(scene.global_batch) / shape.data / shape.micro_batches;
}

PipelineBound BoundOf(const Scene& scene, const PassTable& passes, const Shape& shape) {
  const double samples = MicroBatchOf(scene, shape);
  double reference = 0;  // the whole model on the first type
  PipelineBound bound;
  std::vector<double> fastest(passes.types(), 0);  // the reference's time ÷ its own, at best
  for (uint32_t layer = 0; layer < passes.layers(); ++layer) {
    const double first = passes.At(0, layer).SecondsFor(samples);
    double least = first;
    reference += first;
    for (uint32_t type = 0; type < passes.types(); ++type) {
      const double own = passes.At(type, layer).SecondsFor(samples);
      least = std::min(least, own);
      if (own > 0) fastest[type] = std::max(fastest[type], first / own);
    }
    bound.sum += least;
  }
  std::vector<double> speeds;  // of each stage
  for (uint32_t type = 0; type < passes.types(); ++type) {
    const uint32_t stages = std::min(StagesOf(scene.counts[type], shape), shape.pipeline);
    speeds.insert(speeds.end(), stages, fastest[type]);
  }
  if (speeds.size() < shape.pipeline) {
    bound.first = kNever;
    return bound;
  }
  std::sort(speeds.rbegin(), speeds.rend());
  if (IsSimulated(shape)) {
    // Stages work on the first micro-batch at the same time as on others, so that only their own
    // work counts. Each stage does all micro-batches.
    double speed = 0;
    for (uint32_t i = 0; i < shape.pipeline; ++i) speed += speeds[i];
    return {.first = speed > 0 ? shape.micro_batches * reference / speed : 0, .sum = 0};
  }
  double speed = 0;
  for (uint32_t i = 0; i < shape.pipeline; ++i) speed += speeds[i];
  if (speed > 0) bound.first = (shape.micro_batches - 1) * reference / speed;
  return bound;
}

}  // namespace paceline::plan
