// A script that nobody hears of a checkpoint, and that was never seen to go on from a file of its
// own, has to do all steps of its world again when a node is given up. So a node that is merely
// silent is waited for as long as those steps took, or as long as the job waits at most.

#include <algorithm>
#include <optional>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// Time that a master gave its nodes back because it was stopped itself may have been rounded.
constexpr Duration kRounding = Duration::Milliseconds(1);

class SilenceWaitedFor final : public Check {
 public:
  void Restored(SimWorld&) override { trains_since_.reset(); }  // its clock is another one

  void Decided(SimWorld& world, const Turn& turn) override {
    const Options& options = world.options();
    if (options.saves.is_used || options.tells_saved) return;
    const bool resumes = world.master().job().state().has_resumed;
    for (const core::Record& record : turn.actions.records) {
      if (std::holds_alternative<core::WorldRunning>(record.fact)) trains_since_ = turn.now;
      const bool is_over = std::holds_alternative<core::WorldEnded>(record.fact) ||
                           std::holds_alternative<core::StopDecided>(record.fact);
      if (is_over) trains_since_.reset();
      const auto* lost = std::get_if<core::NodeLost>(&record.fact);
      if (lost != nullptr && trains_since_.has_value() && !resumes) Judge(world, turn.now, *lost);
    }
  }

 private:
  void Judge(SimWorld& world, Instant now, const core::NodeLost& lost) {
    if (!lost.reason.starts_with("was silent for ") || !IsInWorld(world, lost.node)) return;
    const Duration trained = now - lost.silent_for - *trains_since_;
    const Duration least = std::min(trained, world.options().spec.timers.lost_after_max);
    MARK("a silent node of a script without checkpoints is lost");
    if (lost.silent_for + kRounding >= least) return;
    world.Fail("silence_waited_for", lost.name + " was given up after a silence of " +
                                         ToString(lost.silent_for) + ", and " + ToString(trained) +
                                         " of training with it");
  }

  static bool IsInWorld(SimWorld& world, NodeId node) {
    const auto& seats = world.master().job().state().last_world.seats;
    return std::any_of(seats.begin(), seats.end(),
                       [node](const Seat& seat) { return seat.node == node; });
  }

  std::optional<Instant> trains_since_;  // this world, by this master's clock
};

}  // namespace

std::unique_ptr<Check> MakeSilenceWaitedFor() { return std::make_unique<SilenceWaitedFor>(); }

}  // namespace paceline::sim
