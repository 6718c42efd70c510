#include "paceline/sim/checkpoint/memories.h"

#include <map>
#include <set>

#include "paceline/sim/world.h"

namespace paceline::sim {

BootCounts Boots(SimWorld& world) {
  BootCounts boots;
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    boots.emplace_back(world.node(i).boot_count(), world.node(i).is_on());
  }
  return boots;
}

std::optional<SavedStep> NewestWhole(SimWorld& world, bool with_silent) {
  const World& last = world.master().job().state().last_world;
  std::map<SavedStep, std::set<uint32_t>> ranks;
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    Node& node = world.node(i);
    if (!node.is_on() || node.is_twin() || (node.is_silent() && !with_silent)) continue;
    world.SyncSaves(node);
    for (const auto& [place, arena] : node.shelf().all()) {
      if (place.is_copy || place.node != node.name()) continue;
      for (const SimImage* image : arena.Sealed()) {
        const bool is_good = !image->is_flipped && !image->is_zombies &&
                             image->saved.generation == last.generation.value() &&
                             image->world_size == last.world_size();
        if (is_good) ranks[image->saved].insert(image->rank);
      }
    }
  }
  std::optional<SavedStep> newest;
  for (const auto& [saved, who] : ranks) {
    if (who.size() == last.world_size()) newest = saved;
  }
  return newest;
}

}  // namespace paceline::sim
