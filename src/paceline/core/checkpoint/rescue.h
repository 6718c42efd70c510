#pragma once

// Which step the surviving hosts can bring to storage after the master's host is lost, and which
// node writes each rank's shard. Pure.
//
// A step is whole if each rank of the world that saved it has, on some host that answered,
//   - its own image, or else
//   - a copy of it, or else
//   - an equal file of another rank (data parallel). That rank's notes are then taken as well, as
//     in a restore from memory.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/model/rescue.h"

namespace paceline::core {

struct Rescuable {
  std::optional<SavedStep> whole;  // the newest whole step
  uint32_t world_size = 0;         // of the world that saved it
  std::vector<RescueShard> shards;
  // The newest step of which there is any image, and the ranks without one.
  std::optional<SavedStep> newest;
  std::set<uint32_t> missing;
};
Rescuable FindRescuable(const std::vector<RescueAnswer>& answers);

}  // namespace paceline::core
