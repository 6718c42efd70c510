// Once ranks have reported their model and their devices, no world forms whose devices are known
// not to hold the model. A node that was in no world with a plan may have any devices. A world with
// all devices of the last plan's world holds the model, because that one did.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/node.h"
#include "paceline/sim/planned.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class FitsCheck final : public Check {
 public:
  // The next master does not know the records that were not copied.
  void Succeeded(SimWorld& world) override {
    known_.clear();
    last_.clear();
    seats_.clear();
    names_.clear();
    for (const core::Record& record : world.master().durable()) Note(world, record);
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    if (!world.options().plan.is_used) return;
    if (const auto* formed = std::get_if<core::WorldFormed>(&record.fact)) Judge(world, *formed);
    Note(world, record);
  }

 private:
  // The node's number in the simulator, by its name.
  static std::optional<uint32_t> IndexOf(SimWorld& world, const std::string& name) {
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      if (world.node(i).name() == name) return i;
    }
    return std::nullopt;
  }

  void Note(SimWorld& world, const core::Record& record) {
    if (const auto* joined = std::get_if<core::NodeJoined>(&record.fact)) {
      names_[joined->node] = joined->name;
    } else if (const auto* formed = std::get_if<core::WorldFormed>(&record.fact)) {
      seats_.clear();
      for (const Seat& seat : formed->world.seats) seats_.push_back(seat.node);
    } else if (std::holds_alternative<core::ParallelPlanChosen>(record.fact)) {
      last_.clear();
      for (const NodeId node : seats_) {
        const auto index = IndexOf(world, names_[node]);
        if (!index.has_value()) continue;
        known_[node] = DevicesOf(world.options(), *index, /*is_true=*/true);
        last_[known_[node].type] += known_[node].count;
      }
    }
  }

  void Judge(SimWorld& world, const core::WorldFormed& formed) {
    if (known_.empty()) return;
    plan::AllocatedDevices largest;
    for (const auto& [node, devices] : known_) {
      if (devices.memory > largest.memory) largest = devices;
    }
    plan::Allocation allocation;
    std::map<std::string, uint32_t> counts;
    for (const Seat& seat : formed.world.seats) {
      const auto known = known_.find(seat.node);
      allocation.push_back(known == known_.end() ? largest : known->second);
      counts[allocation.back().type] += allocation.back().count;
    }
    const bool has_all = std::all_of(last_.begin(), last_.end(), [&](const auto& one) {
      return counts[one.first] >= one.second;
    });
    if (has_all || Holds(world.options(), allocation)) return;
    world.Fail("fits", "a world of " + std::to_string(formed.world.seats.size()) +
                           " nodes forms, and their devices do not hold the model");
  }

  std::map<NodeId, plan::AllocatedDevices> known_;  // as they are
  std::map<std::string, uint32_t> last_;            // devices of the newest plan's world, by type
  std::vector<NodeId> seats_;                       // of the newest world
  std::map<NodeId, std::string> names_;
};

}  // namespace

std::unique_ptr<Check> MakeFits() { return std::make_unique<FitsCheck>(); }

}  // namespace paceline::sim
