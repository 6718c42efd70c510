// Steps in the journal are steps that were made, and checkpoints it speaks of were saved. What is
// lost at a restart follows: the group itself starts at the newest saved step.

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class RestoreNewest final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    for (const core::Record& record : turn.actions.records) {
      if (const auto* fact = std::get_if<core::RecoveryDecided>(&record.fact)) {
        Judge(world, fact->step, fact->saved_step);
      } else if (const auto* fact = std::get_if<core::WorldRunning>(&record.fact)) {
        Judge(world, fact->step, -1);
      } else if (const auto* fact = std::get_if<core::WorldEnded>(&record.fact)) {
        Judge(world, fact->step, -1);
      } else if (const auto* fact = std::get_if<core::ProgressMade>(&record.fact)) {
        Judge(world, fact->step, -1);
      }
    }
  }

 private:
  static void Judge(SimWorld& world, int64_t step, int64_t saved_step) {
    if (step > world.workload().step_max()) {
      world.Fail("restore_newest", "the journal speaks of step " + std::to_string(step) +
                                       ", nobody got beyond " +
                                       std::to_string(world.workload().step_max()));
    }
    if (saved_step > world.workload().newest_saved()) {
      world.Fail("restore_newest", "the journal speaks of a checkpoint of step " +
                                       std::to_string(saved_step) + ", the newest is of " +
                                       std::to_string(world.workload().newest_saved()));
    }
  }
};

}  // namespace

std::unique_ptr<Check> MakeRestoreNewest() { return std::make_unique<RestoreNewest>(); }

}  // namespace paceline::sim
