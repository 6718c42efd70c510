#include "paceline/core/checkpoint/rescue.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace paceline::core {
namespace {

// An image that its node can write. Agents read the arenas of other nodes on their host, but write
// only their own.
struct Found {
  const RescueAnswer* answer;
  const MemoryImage* image;
};

bool IsOwn(const RescueAnswer& answer, const MemoryImage& image) {
  return image.place == answer.node || image.place == answer.node + ".disk";
}

// Returns true if `rank` saved the same bytes as the rank of `image`.
bool IsFileOf(const RescueAnswer& answer, const MemoryImage& image, uint32_t rank) {
  if (image.is_replica) return true;
  return std::any_of(answer.equal.begin(), answer.equal.end(), [&](const EqualFiles& equal) {
    if (equal.saved != image.saved || equal.file_root != image.file_root) return false;
    return std::any_of(equal.ranks.begin(), equal.ranks.end(), [rank](const RankRun& run) {
      return rank >= run.first && rank - run.first < run.count;
    });
  });
}

// The image to write for that rank; none if no host has one.
std::optional<Found> ImageFor(const std::vector<Found>& images, uint32_t rank) {
  const auto find = [&](const std::function<bool(const Found&)>& fits) -> std::optional<Found> {
    const auto at = std::find_if(images.begin(), images.end(), fits);
    return at == images.end() ? std::nullopt : std::optional(*at);
  };
  const auto is_of = [rank](const Found& one) { return one.image->rank.value() == rank; };
  if (const auto own = find([&](const Found& one) { return is_of(one) && !one.image->is_copy; })) {
    return own;
  }
  if (const auto copy = find(is_of)) return copy;
  return find([&](const Found& one) { return IsFileOf(*one.answer, *one.image, rank); });
}

// The shards of one step; `missing` gets the ranks without an image.
std::vector<RescueShard> ShardsOf(const std::vector<Found>& images, uint32_t world_size,
                                  std::set<uint32_t>* missing) {
  std::vector<RescueShard> shards;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> file_of;  // the lowest rank with the same file
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    const std::optional<Found> found = ImageFor(images, rank);
    if (!found.has_value()) {
      missing->insert(rank);
      continue;
    }
    const MemoryImage& image = *found->image;
    const auto key = std::pair(image.file_root, image.file_bytes);
    shards.push_back({Rank(rank), Rank(file_of.emplace(key, rank).first->second), image.rank,
                      found->answer->node});
  }
  return shards;
}

}  // namespace

Rescuable FindRescuable(const std::vector<RescueAnswer>& answers) {
  // A world has at most as many ranks as images can be reported. A larger one is a broken answer.
  constexpr uint32_t kWorldMax = 1 << 20;
  std::map<SavedStep, std::vector<Found>> steps;
  for (const RescueAnswer& answer : answers) {
    for (const MemoryImage& image : answer.images) {
      const bool counts = IsOwn(answer, image) && image.world_size <= kWorldMax &&
                          image.rank.value() < image.world_size;
      if (counts) steps[image.saved].push_back({&answer, &image});
    }
  }
  Rescuable result;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const uint32_t world_size = step->second.front().image->world_size;
    std::set<uint32_t> missing;
    std::vector<RescueShard> shards = ShardsOf(step->second, world_size, &missing);
    if (!result.newest.has_value()) {
      result.newest = step->first;
      result.missing = missing;
    }
    if (!missing.empty()) continue;
    result.whole = step->first;
    result.world_size = world_size;
    result.shards = std::move(shards);
    return result;
  }
  return result;
}

}  // namespace paceline::core
