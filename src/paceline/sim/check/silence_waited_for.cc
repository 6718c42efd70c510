// If a script reports no checkpoint and was never seen to resume from a file, the loss of a node
// costs all steps of its world. So a merely silent node must be awaited for as long as those steps
// took, up to the job's limit.

#include <algorithm>
#include <optional>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// For the rounding of the time in which the master itself was stopped.
constexpr Duration kRounding = Duration::Milliseconds(1);

class SilenceWaitedFor final : public Check {
 public:
  void Restored(SimWorld&) override { trains_since_.reset(); }  // a new master has another clock

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

  std::optional<Instant> trains_since_;  // of this world, by this master's clock
};

}  // namespace

std::unique_ptr<Check> MakeSilenceWaitedFor() { return std::make_unique<SilenceWaitedFor>(); }

}  // namespace paceline::sim
