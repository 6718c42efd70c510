#include "paceline/core/checkpoint/whole_step.h"

#include <set>

#include "paceline/core/checkpoint/image_on_disk.h"

namespace paceline::core {
namespace {

// Returns true if the node's own agent can read the image. Nodes of one host have separate arenas.
bool IsOwn(const CheckpointReport& report, const MemoryImage& image) {
  return image.place == report.place || IsOnDisk(report, image);
}

}  // namespace

std::optional<SavedStep> NewestSavedBy(const World& world, const Memories& memories) {
  std::map<SavedStep, std::set<uint32_t>> ranks;
  for (const auto& [node, report] : memories.reports) {
    for (const MemoryImage& image : report.images) {
      if (image.saved.generation != world.generation.value() || image.is_copy) continue;
      ranks[image.saved].insert(image.rank.value());
    }
  }
  for (auto it = ranks.rbegin(); it != ranks.rend(); ++it) {
    if (it->second.size() == world.world_size()) return it->first;
  }
  return std::nullopt;
}

ImageWriters WritersIn(const World& world, const Memories& memories, SavedStep saved) {
  ImageWriters writers;
  for (const Seat& seat : world.seats) {
    for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
      const MemoryImage* image = Find(memories.reports.at(seat.node), Rank(rank), saved);
      if (image == nullptr || image->is_copy) return {};
      writers[rank] = {seat.node, image->file_root, image->file_bytes};
    }
  }
  return writers;
}

ImageWriters WritersLeft(const std::vector<NodeId>& nodes, const Memories& memories,
                         SavedStep saved) {
  ImageWriters writers;
  uint32_t world_size = 0;
  for (const bool takes_copies : {false, true}) {
    for (const NodeId node : nodes) {
      const auto report = memories.reports.find(node);
      if (report == memories.reports.end()) continue;
      for (const MemoryImage& image : report->second.images) {
        const bool counts =
            image.saved == saved && image.is_copy == takes_copies && IsOwn(report->second, image);
        if (!counts) continue;
        world_size = image.world_size;
        writers.try_emplace(image.rank.value(),
                            ImageWriter{node, image.file_root, image.file_bytes});
      }
    }
  }
  return writers.size() == world_size ? writers : ImageWriters();
}

std::optional<SavedStep> NewestLeft(const std::vector<NodeId>& nodes, const CheckpointBook& book,
                                    const Memories& memories) {
  std::set<SavedStep> candidates;
  for (const auto& [node, report] : memories.reports) {
    for (const MemoryImage& image : report.images) {
      if (!IsGivenUp(book, image.saved)) candidates.insert(image.saved);
    }
  }
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
    if (!WritersLeft(nodes, memories, *it).empty()) return *it;
  }
  return std::nullopt;
}

}  // namespace paceline::core
