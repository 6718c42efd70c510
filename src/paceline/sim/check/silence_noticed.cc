// A node that is silent for ever is lost within a bound, even if no other event happens: all other
// faults are healed by then. Then the job has formed a world without it, says that it waits for
// nodes, or is over.

#include <algorithm>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// Beyond the detectors' limits: late timers, and messages in flight.
constexpr Duration kSlack = Duration::Seconds(5);

class SilenceNoticed final : public Check {
 public:
  void Look(SimWorld& world) override {
    const Master& master = world.master();
    if (!master.is_on() || master.has_finished()) return;
    const Node* silent = world.SilentMember();
    if (silent == nullptr) return;
    const Options& options = world.options();
    const Instant since = std::max(Instant() + options.chaos, master.started_at());
    const Duration bound = Bound(options.spec);
    if (world.queue().now() - since < bound) return;
    world.Fail("silence_noticed",
               silent->name() + " is silent for ever and still a member after " + ToString(bound) +
                   " without another fault; the job says: " + master.job().Pending());
  }

  void AtQuiet(SimWorld& world) override {
    const Master& master = world.master();
    bool is_any_silent = false;
    for (uint32_t i = 0; i < world.node_count(); ++i) is_any_silent |= world.node(i).is_silent();
    if (!is_any_silent) return;
    if (master.has_finished()) {
      MARK("job ends beside a lasting silence");
    } else if (master.job().state().world.has_value()) {
      MARK("world without those who are silent for ever");
    } else if (master.job().Pending().starts_with("waits for ")) {
      MARK("waits for nodes after a lasting silence");
    } else {
      world.Fail("silence_noticed",
                 "too many nodes are silent for ever, but the job says: " + master.job().Pending());
    }
  }

 private:
  // A stream may break only just before the limit, and is then given more time. A new master first
  // waits for the nodes that it has not heard.
  static Duration Bound(const JobSpec& spec) {
    const Duration limit = std::max(spec.timers.lost_after_max, spec.timers.lost_after);
    return std::max(limit + core::DisconnectedLimit(limit), spec.timers.reattach_window) + kSlack;
  }
};

}  // namespace

std::unique_ptr<Check> MakeSilenceNoticed() { return std::make_unique<SilenceNoticed>(); }

}  // namespace paceline::sim
