#pragma once

// The model and the cluster in the form that the search uses: layers one by one, devices counted by
// type.

#include <cstdint>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/model/plan.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

inline constexpr size_t kLayersMax = 10'000;
// The largest number of layers for which pipelines are searched; the cost grows with its square.
inline constexpr size_t kPipelineLayersMax = 512;

struct Scene {
  std::vector<LayerRow> rows;    // as the summary has them
  std::vector<LayerRow> layers;  // unfolded: `count` is 1
  ParameterBytes bytes;
  bool casts = false;  // whether parameters are used in another precision than stored
  std::string no_pipeline;
  std::string no_tensor;
  uint32_t tensor_divides = 0;
  uint32_t sequence_divides = 0;
  Cluster cluster;
  std::vector<uint32_t> counts;              // devices, by type
  std::vector<std::vector<uint32_t>> ranks;  // of each type, in order
  uint32_t devices = 0;
  uint64_t global_batch = 0;
  const Execution* execution = &OurExecution();
  bool looks_at_chunks = false;  // as in PlanWishes
};

// kInvalid: one sentence on what contradicts itself.
Result<Scene> MakeScene(const ModelSummary& summary, const Cluster& cluster,
                        const PlanWishes& wishes);

}  // namespace paceline::plan
