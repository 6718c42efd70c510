#pragma once

// The cut of the layers into the virtual stages of an interleaved pipeline, for devices of one
// type.
//
// Each chunk should take as long as any other, because a stage waits for others as long as a chunk
// takes. So the longest chunk is made as short as possible, and then the chunks as equal as that
// allows. This is not always the best cut: `Simulate` judges it, and `Improved` moves borders.

#include <optional>

#include "paceline/plan/pass_table.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

// The cut with `pipeline × virtual_stages` stages; `seconds` is simulated. Nothing if the layers
// cannot be cut so, or the cut does not fit into the devices' memory.
std::optional<PipelineCut> CutInterleaved(const Scene& scene, const PassTable& passes,
                                          const Shape& shape);

}  // namespace paceline::plan
