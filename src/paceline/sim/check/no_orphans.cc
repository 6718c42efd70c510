// At the end every process belongs to the world, and every rank of the world has a process. Nodes
// that are silent for ever are excluded; their own agents end their processes.

#include <string>

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class NoOrphans final : public Check {
 public:
  void AtQuiet(SimWorld& world) override {
    size_t alive = 0;
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      if (!world.node(i).is_silent()) alive += world.node(i).processes().size();
    }
    const core::JobState& state = world.master().job().state();
    const bool has_world = !world.master().has_finished() && state.world.has_value();
    const size_t wanted = has_world ? state.world->world_size() : 0;
    if (alive == wanted) return;
    world.Fail("no_orphans",
               std::to_string(alive) + " processes live, the world has " + std::to_string(wanted));
  }
};

}  // namespace

std::unique_ptr<Check> MakeNoOrphans() { return std::make_unique<NoOrphans>(); }

}  // namespace paceline::sim
