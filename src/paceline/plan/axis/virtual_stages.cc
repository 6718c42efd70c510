#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::string RefusesVirtualStages(const Scene& scene, const Shape& chosen, uint32_t value) {
  if (value == 0) return "a stage has at least one chunk of layers";
  if (value == 1) return "";
  if (chosen.pipeline == 1) return "one stage has nothing to interleave with";
  const auto has_any = [](uint32_t count) { return count > 0; };
  if (std::count_if(scene.counts.begin(), scene.counts.end(), has_any) > 1) {
    return "interleaved stages are planned for devices of one type, and there are several";
  }
  if (uint64_t{value} * chosen.pipeline > scene.layers.size()) {
    return Concat("the model has ", Counted(scene.layers.size(), "layer"));
  }
  return kInterleaved.refuses({chosen.pipeline, chosen.micro_batches, value});
}

// Each cut of interleaved stages is a simulation, so few numbers of chunks are looked at, and those
// only if the wishes say so: a running pipeline with chunks cannot move its layers.
std::vector<uint32_t> VirtualStageValues(const Scene& scene, const Shape& chosen) {
  std::vector<uint32_t> values = {1};
  if (!scene.looks_at_chunks) return values;
  for (const uint32_t value : {2u, 4u}) {
    if (RefusesVirtualStages(scene, chosen, value).empty()) values.push_back(value);
  }
  return values;
}

}  // namespace

const Axis kVirtualStagesAxis = {
    .name = "virtual_stages",
    .alias = "vpp",
    .field = &Shape::virtual_stages,
    .values = VirtualStageValues,
    .refuses = RefusesVirtualStages,
    .words = [](uint32_t value) { return value == 1 ? "" : Concat(value, " virtual stages"); }};

}  // namespace paceline::plan
