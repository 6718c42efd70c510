#pragma once

// Finds out in which step an ElasticLoader read a sample, from the positions in checkpoints.

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/base/json.h"
#include "paceline/cli/command.h"
#include "paceline/data/epoch_order.h"

namespace paceline::cli {

// The order that a loader's terms name (docs/formats/data_order.md); nothing when it is not one of
// ours, but made by a sampler of the script or a mixture.
std::optional<EpochOrder> OrderOf(const nlohmann::ordered_json& terms, uint64_t epoch);

// `paceline data trace SAMPLE --checkpoint DIR`: in which step of which epoch the sample was read,
// and which checkpoint has it first. `data_set`: its name or its key in the state; "" for all.
int TraceInCheckpoints(Invocation& invocation, const std::string& directory,
                       const std::string& data_set, uint64_t sample);

}  // namespace paceline::cli
