// A user changes the size of the simulated job.

#include "paceline/base/mark.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

void SimWorld::RequestSize(core::SizeRequested size) {
  if (master_->has_finished()) return;
  trace_.Add(queue_.now(), "user", size.at_once ? "scale_now" : "scale", size.nodes);
  ForEachCheck([&](Check& check) { check.SizeAsked(*this, size.nodes); });
  const JobSpec& spec = options_.spec;
  if (options_.canary == Canary::kOtherSize) {
    size.nodes = size.nodes == spec.nodes_min ? spec.nodes_max : spec.nodes_min;
  }
  master_->Feed(size);
}

// A job that saves gets as small as a user chose. That a plan does not fit may keep it from that.
std::string SimWorld::TroubleOfSize() {
  const core::JobState& state = master_->job().state();
  // A checkpoint that a resting agent has not told is not known.
  const bool is_told =
      options_.tells_saved && options_.checkpoint_every > 0 && options_.heartbeats_each;
  const bool saves = options_.saves.is_used ? has_committed_ : is_told;
  const size_t seats = state.world->seats.size();
  const uint32_t most = state.NextBounds().nodes_max;
  if (!saves || options_.plan.is_used || seats <= most) return {};
  MARK("a job is about to get smaller when all is well");
  return "the world has " + std::to_string(seats) + " nodes, and the user chose " +
         std::to_string(most);
}

}  // namespace paceline::sim
