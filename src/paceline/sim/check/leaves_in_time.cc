// The check: a node under notice has left the job before its platform ends it. So the end of such a
// node is no failure.

#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class LeavesInTime final : public Check {
 public:
  void TakenAway(SimWorld& world, const Node& node, bool is_calm) override {
    const core::JobState& state = world.master().job().state();
    const bool is_over =
        state.phase == core::Phase::kStopping || state.phase == core::Phase::kFinished;
    if (!is_calm || is_over) return;
    MARK("a node ends as its platform told");
    const core::NodeState* known = state.Find(node.name());
    if (known == nullptr || !known->IsMember()) return;
    world.Fail("leaves_in_time",
               node.name() + " takes part until its platform ends it, as it told before");
  }
};

}  // namespace

std::unique_ptr<Check> MakeLeavesInTime() { return std::make_unique<LeavesInTime>(); }

}  // namespace paceline::sim
