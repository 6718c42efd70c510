#pragma once

// Which saved steps are complete in the memory of the job's hosts, and which node can write each
// rank's image to storage.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/core/checkpoint/book.h"
#include "paceline/core/checkpoint/restore.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/world.h"

namespace paceline::core {

// A node that can read a rank's image, and the hash and size of that rank's file.
struct ImageWriter {
  NodeId node;
  uint64_t file_root = 0;
  uint64_t file_bytes = 0;
};
using ImageWriters = std::map<uint32_t, ImageWriter>;  // by rank

// The newest step that all ranks of `world` have saved in it, reported by any node.
std::optional<SavedStep> NewestSavedBy(const World& world, const Memories& memories);

// Each rank's image of that step on its own node. Empty if one is gone.
ImageWriters WritersIn(const World& world, const Memories& memories, SavedStep saved);

// The same at the end of a job: a step of any world, from any of these nodes, copies included. A
// world may end before its first save, and then the step that it restored is the newest. Copies may
// replace the images of a lost host.
ImageWriters WritersLeft(const std::vector<NodeId>& nodes, const Memories& memories,
                         SavedStep saved);

// The newest step that these nodes can write, except steps that the job abandoned by restoring an
// older one.
std::optional<SavedStep> NewestLeft(const std::vector<NodeId>& nodes, const CheckpointBook& book,
                                    const Memories& memories);

}  // namespace paceline::core
