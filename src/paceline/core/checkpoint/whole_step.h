#pragma once

// Which saved steps are whole in the memory of the job's hosts, and who can bring each rank's part
// of one to storage.

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

// Has the image of a rank within its own reach, and the file of that rank is what it says.
struct ImageWriter {
  NodeId node;
  uint64_t file_root = 0;
  uint64_t file_bytes = 0;
};
using ImageWriters = std::map<uint32_t, ImageWriter>;  // by rank

// The newest step that the ranks of `world` have saved in it, all of them, whoever tells of it.
std::optional<SavedStep> NewestSavedBy(const World& world, const Memories& memories);

// Each rank's image of that step where the rank itself saved it. Empty: one is not there any more.
ImageWriters WritersIn(const World& world, const Memories& memories, SavedStep saved);

// The same for what is left at the end of a job: any world's step, by whichever of these nodes has
// its parts, copies included. A world may end before its first save, and then what it went on from
// is the newest that there is; and of what a lost host saved, others may have copies.
ImageWriters WritersLeft(const std::vector<NodeId>& nodes, const Memories& memories,
                         SavedStep saved);

// The newest step that those can write; nothing that the job has given up by going on from an
// older one.
std::optional<SavedStep> NewestLeft(const std::vector<NodeId>& nodes, const CheckpointBook& book,
                                    const Memories& memories);

}  // namespace paceline::core
