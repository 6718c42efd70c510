// When the master's host is lost, no step is lost that every rank has whole in the memory of its
// own node: the world goes on, or the next one of the same nodes begins with that step or a later
// one.
//
// Judged by the memories themselves as they were at the loss. A node that is switched off later, or
// that is not in the next world, excuses it: its memory is not there. So does a rank that has saved
// a later step since, because its arena has few slots.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/checkpoint/memories.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class NewestStepKept final : public Check {
 public:
  void MasterLost(SimWorld& world) override {
    newest_.reset();
    if (!world.options().saves.is_used || !world.master().is_on()) return;
    newest_ = NewestWhole(world, /*with_silent=*/false);
    boots_ = Boots(world);
    seats_ = Seats(world.master().job().state());
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    if (!newest_.has_value()) return;
    const core::JobState& state = world.master().job().state();
    const auto* restored = std::get_if<core::RestoreDecided>(&record.fact);
    if (restored == nullptr || !state.world.has_value()) return;
    if (state.world->generation != restored->generation) return;
    const SavedStep newest = *std::exchange(newest_, std::nullopt);
    if (boots_ != Boots(world) || seats_ != Seats(state) || HasGoneOn(world, newest)) return;
    MARK("the newest step is looked for after the loss of a master's host");
    if (!world.workload().IsEarlier(restored->saved, newest)) return;
    world.Fail("newest_step_kept", "world " + std::to_string(WorldNumber(restored->generation)) +
                                       " " + restored->reason + ", and " + Say(newest) +
                                       " was whole in memory when the master's host was lost");
  }

 private:
  static std::vector<std::string> Seats(const core::JobState& state) {
    std::vector<std::string> names;
    for (const Seat& seat : state.last_world.seats) names.push_back(state.NameOf(seat.node));
    return names;
  }

  static bool HasGoneOn(SimWorld& world, SavedStep newest) {
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      Node& node = world.node(i);
      world.SyncSaves(node);
      for (const auto& [place, arena] : node.shelf().all()) {
        const auto& images = arena.Sealed();
        const bool is_later = std::any_of(images.begin(), images.end(), [&](const SimImage* one) {
          return world.workload().IsEarlier(newest, one->saved);
        });
        if (is_later) return true;
      }
    }
    return false;
  }

  std::optional<SavedStep> newest_;  // at the last loss; none: the next world has been judged
  BootCounts boots_;
  std::vector<std::string> seats_;
};

}  // namespace

std::unique_ptr<Check> MakeNewestStepKept() { return std::make_unique<NewestStepKept>(); }

}  // namespace paceline::sim
