#pragma once

// The memories of the hosts as they are, and not as the nodes report them. For checks.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/model/checkpoint.h"

namespace paceline::sim {

class SimWorld;

// Of each node: how often it was switched on, and whether it is on.
using BootCounts = std::vector<std::pair<uint64_t, bool>>;
BootCounts Boots(SimWorld& world);

// The newest step that each rank of the last world has on the node where it saves. `with_silent`:
// also on nodes that no other node can reach.
std::optional<SavedStep> NewestWhole(SimWorld& world, bool with_silent);

}  // namespace paceline::sim
