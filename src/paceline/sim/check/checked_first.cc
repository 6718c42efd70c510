// With checks, no rank starts on a host that has not passed them, and no world is formed with a
// node that failed them. The first is the truth of the host, the second what the journal says.

#include "paceline/base/mark.h"
#include "paceline/core/record.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class CheckedFirst final : public Check {
 public:
  void Started(SimWorld& world, const RankProcess& process) override {
    if (!world.options().checks.is_used) return;
    const Node& node = world.node(process.node);
    if (node.check().state == NodeCheck::State::kPassed) return;
    world.Fail("checked_first", "rank " + ToString(process.rank) + " starts on " + node.name() +
                                    ", which has not passed its checks");
  }

  void Decided(SimWorld& world, const Turn& turn) override {
    const core::JobState& state = world.master().job().state();
    for (const core::Record& record : turn.actions.records) {
      if (std::holds_alternative<core::NodeChecked>(record.fact)) MARK("a node was checked");
      const auto* formed = std::get_if<core::WorldFormed>(&record.fact);
      if (formed == nullptr) continue;
      for (const Seat& seat : formed->world.seats) {
        const core::NodeState* node = state.Find(seat.node);
        const bool has_failed = node != nullptr && node->check.has_value() &&
                                node->check->state == NodeCheck::State::kFailed;
        if (has_failed)
          world.Fail("checked_first", node->name + " failed its checks and is seated");
      }
    }
  }
};

}  // namespace

std::unique_ptr<Check> MakeCheckedFirst() { return std::make_unique<CheckedFirst>(); }

}  // namespace paceline::sim
