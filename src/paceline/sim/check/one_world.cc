// At most one unfenced world: a starting process has a rank that the journal gave to its node, no
// other process has that rank and generation, and its slot's old process is gone.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class OneWorld final : public Check {
 public:
  void Persisted(SimWorld&, const core::Record& record) override { Note(record, names_); }

  void PersistedByFormer(SimWorld&, const core::Record& record) override {
    Note(record, former_names_);
  }

  void MasterLost(SimWorld&) override { former_names_ = names_; }

  // The next master may give the numbers of nodes anew.
  void Succeeded(SimWorld& world) override {
    names_.clear();
    for (const core::Record& record : world.master().durable()) {
      if (!std::holds_alternative<core::WorldFormed>(record.fact)) Note(record, names_);
    }
  }

  void Started(SimWorld& world, const RankProcess& process) override {
    const std::string who = "rank " + ToString(process.rank) + " of generation " +
                            ToString(process.generation) + " on " + world.node(process.node).name();
    const auto [holder, is_free] =
        holders_.try_emplace({process.generation, process.rank}, process.pid);
    if (!is_free) {
      world.Fail("one_world",
                 who + " starts while process " + std::to_string(holder->second) + " holds it");
      return;
    }
    const auto [slot, slot_is_free] =
        slots_.try_emplace({process.node, process.local_rank}, process.pid);
    if (!slot_is_free) {
      world.Fail("one_world",
                 who + " starts while its slot holds process " + std::to_string(slot->second));
      return;
    }
    CheckSeat(world, process, who);
  }

  void Ended(SimWorld&, const RankProcess& process, const ExitCause&) override {
    Release(holders_, std::pair{process.generation, process.rank}, process.pid);
    Release(slots_, std::pair{process.node, process.local_rank}, process.pid);
  }

 private:
  using Names = std::map<NodeId, std::string>;
  struct Formed {
    core::WorldFormed fact;
    std::vector<std::string> names;  // of its nodes, by seat
  };

  void Note(const core::Record& record, Names& names) {
    if (const auto* joined = std::get_if<core::NodeJoined>(&record.fact)) {
      names[joined->node] = joined->name;
    }
    const auto* formed = std::get_if<core::WorldFormed>(&record.fact);
    if (formed == nullptr) return;
    Formed& world = worlds_[formed->world.generation];
    world = {*formed, {}};
    for (const Seat& seat : formed->world.seats) world.names.push_back(names[seat.node]);
  }

  template <class Map, class Key>
  static void Release(Map& map, const Key& key, int32_t pid) {
    const auto it = map.find(key);
    if (it != map.end() && it->second == pid) map.erase(it);
  }

  void CheckSeat(SimWorld& world, const RankProcess& process, const std::string& who) {
    // A generation without a record is in the block of a single node.
    auto it = worlds_.upper_bound(process.generation);
    if (it == worlds_.begin()) {
      world.Fail("one_world", who + " starts in a world that was never formed");
      return;
    }
    const auto& [formed, names] = (--it)->second;
    if (it->first != process.generation && process.generation > formed.solo_last) {
      world.Fail("one_world", who + " starts in a world that was never formed");
      return;
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const Seat& seat = formed.world.seats[i];
      if (names[i] != world.node(process.node).name()) continue;
      if (process.rank.value() == seat.first_rank + process.local_rank &&
          process.local_rank < seat.rank_count) {
        return;
      }
    }
    world.Fail("one_world", who + " starts, which is no rank of that node's seat");
  }

  Names names_;
  Names former_names_;  // as the former master counts them
  std::map<Generation, Formed> worlds_;
  std::map<std::pair<Generation, Rank>, int32_t> holders_;
  std::map<std::pair<uint32_t, uint32_t>, int32_t> slots_;
};

}  // namespace

std::unique_ptr<Check> MakeOneWorld() { return std::make_unique<OneWorld>(); }

}  // namespace paceline::sim
