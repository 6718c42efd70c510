// The job has one master, whatever an old one believes. A node that has met a newer master carries
// out nothing that an older one says. No two masters form worlds of one number. Once a checkpoint
// was made visible for a newer master, none is made visible for an older one.

#include <algorithm>
#include <map>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class NoTwoWorlds final : public Check {
 public:
  void MasterMet(SimWorld&, const Node& node, uint64_t term) override {
    uint64_t& met = met_[node.index()];
    met = std::max(met, term);
  }

  void Ordered(SimWorld& world, const Node& node, uint64_t term) override {
    if (term >= met_[node.index()]) return;
    world.Fail("no_two_worlds", node.name() + " obeys the master of term " + std::to_string(term) +
                                    " after it has met that of term " +
                                    std::to_string(met_[node.index()]));
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    Judge(world, record, world.master().term());
  }

  void PersistedByFormer(SimWorld& world, const core::Record& record) override {
    if (std::holds_alternative<core::WorldFormed>(record.fact)) {
      MARK("an old master forms a world");
    }
    Judge(world, record, world.former_master()->term());
  }

  void Committed(SimWorld& world, const Node& node, uint64_t term) override {
    if (term < committed_) {
      world.Fail("no_two_worlds", node.name() + " commits for the master of term " +
                                      std::to_string(term) + " after a commit for that of term " +
                                      std::to_string(committed_));
    }
    committed_ = std::max(committed_, term);
  }

 private:
  void Judge(SimWorld& world, const core::Record& record, uint64_t term) {
    const auto* formed = std::get_if<core::WorldFormed>(&record.fact);
    if (formed == nullptr) return;
    const Generation generation = formed->world.generation;
    if (TermOf(generation) != term) {
      world.Fail("no_two_worlds", "the master of term " + std::to_string(term) +
                                      " forms a world of term " +
                                      std::to_string(TermOf(generation)));
    }
    const auto [owner, is_new] = owners_.try_emplace(generation, term);
    if (owner->second == term) return;
    world.Fail("no_two_worlds", "two masters form world " +
                                    std::to_string(WorldNumber(generation)) + " of one term");
  }

  std::map<uint32_t, uint64_t> met_;  // by node
  std::map<Generation, uint64_t> owners_;
  uint64_t committed_ = 0;
};

}  // namespace

std::unique_ptr<Check> MakeNoTwoWorlds() { return std::make_unique<NoTwoWorlds>(); }

}  // namespace paceline::sim
