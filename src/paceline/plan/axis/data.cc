#include <algorithm>
#include <set>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

// How many replicas of one stage the devices make, with a whole number of each type.
uint32_t ReplicasMost(const Scene& scene, const Shape& chosen) {
  uint32_t most = 0;
  for (const uint32_t count : scene.counts) most += count / chosen.tensor;
  return static_cast<uint32_t>(std::min<uint64_t>(most, scene.global_batch));
}

bool HasStages(const Scene& scene, const Shape& chosen, uint32_t replicas) {
  uint64_t stages = 0;
  for (const uint32_t count : scene.counts) {
    stages += count / (static_cast<uint64_t>(chosen.tensor) * replicas);
  }
  return stages >= chosen.pipeline;
}

std::string RefusesData(const Scene& scene, const Shape& chosen, uint32_t value) {
  if (value == 0) return "there is at least one replica";
  if (value > scene.global_batch) {
    return Concat("a replica needs a sample, and the global batch has ", scene.global_batch);
  }
  if (chosen.pipeline == 1) {
    if (value <= ReplicasMost(scene, chosen)) return "";
    return Concat("the devices make ", Counted(ReplicasMost(scene, chosen), "replica"));
  }
  if (!HasStages(scene, chosen, value)) {
    return Concat("a stage has devices of one type, and these make fewer than ", chosen.pipeline,
                  " stages of ", value * chosen.tensor);
  }
  if (scene.global_batch % value != 0) {
    return Concat("replicas of a pipeline take equal shares, and ", value, " does not divide ",
                  scene.global_batch);
  }
  return "";
}

std::vector<uint32_t> DataValues(const Scene& scene, const Shape& chosen) {
  std::set<uint32_t> values;
  if (chosen.pipeline > 1) {
    const uint32_t most = scene.devices / (chosen.pipeline * chosen.tensor);
    for (const uint32_t value : DivisorsOf(scene.global_batch, most)) {
      if (RefusesData(scene, chosen, value).empty()) values.insert(value);
    }
    return Thinned({values.begin(), values.end()}, kDivisorsMost);
  }
  // All devices, halved again and again, because the exchange of gradients among fewer replicas may
  // save more time than their work; and the devices of each set of types.
  for (uint32_t value = ReplicasMost(scene, chosen); value > 0; value /= 2) values.insert(value);
  for (uint32_t types = 1; types < (1u << std::min<size_t>(scene.counts.size(), 6)); ++types) {
    uint64_t value = 0;
    for (size_t type = 0; type < scene.counts.size(); ++type) {
      if ((types >> type & 1) != 0) value += scene.counts[type] / chosen.tensor;
    }
    if (value > 0 && value <= ReplicasMost(scene, chosen)) {
      values.insert(static_cast<uint32_t>(value));
    }
  }
  return {values.begin(), values.end()};
}

}  // namespace

const Axis kDataAxis = {
    .name = "data",
    .alias = "dp",
    .field = &Shape::data,
    .values = DataValues,
    .refuses = RefusesData,
    .words = [](uint32_t value) { return value == 1 ? "" : Concat("data ", value); }};

}  // namespace paceline::plan
