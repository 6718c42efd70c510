#pragma once

// What `paceline status` says of a node beside its state. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/wire/messages.h"

namespace paceline::cli {

// "0-1,4" of ranks 0, 1 and 4.
std::string RankRanges(std::vector<uint32_t> ranks);

// How a rank of it ended, which of them are named for a hang, how long it has been silent, or why
// it is in its state.
std::string NodeNote(const wire::NodeStatus& node, const wire::JobStatus& status);

}  // namespace paceline::cli
