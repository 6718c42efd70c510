#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

std::string RefusesPipeline(const Scene& scene, const Shape&, uint32_t value) {
  if (value == 0) return "there is at least one stage";
  if (value == 1) return "";
  if (!scene.no_pipeline.empty()) return scene.no_pipeline;
  if (value > scene.devices) return Concat("the cluster has ", Counted(scene.devices, "device"));
  if (value > scene.layers.size()) {
    return Concat("the model has ", Counted(scene.layers.size(), "layer"));
  }
  return "";
}

std::vector<uint32_t> PipelineValues(const Scene& scene, const Shape& chosen) {
  std::vector<uint32_t> values;
  for (const uint32_t value : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 10u, 12u, 16u, 20u, 24u, 32u}) {
    if (RefusesPipeline(scene, chosen, value).empty()) values.push_back(value);
  }
  return values;
}

}  // namespace

const Axis kPipelineAxis = {
    .name = "pipeline",
    .alias = "pp",
    .field = &Shape::pipeline,
    .values = PipelineValues,
    .refuses = RefusesPipeline,
    .words = [](uint32_t value) { return value == 1 ? "" : Concat("pipeline ", value); }};

}  // namespace paceline::plan
