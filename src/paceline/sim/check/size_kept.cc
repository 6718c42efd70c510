// No world has more nodes than the user chose, unless it was formed before, and no size is chosen
// that no user asked for. SimWorld::Trouble() has the other half: a job that saves gets smaller.

#include <set>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class SizeKept final : public Check {
 public:
  void SizeAsked(SimWorld&, uint32_t nodes) override { asked_.insert(nodes); }

  // The next master does not know the records that were not copied.
  void Succeeded(SimWorld& world) override {
    chosen_ = 0;
    for (const core::Record& record : world.master().durable()) Note(record);
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    Note(record);
    const auto* chosen = std::get_if<core::SizeChosen>(&record.fact);
    if (chosen != nullptr && !asked_.contains(chosen->nodes)) {
      world.Fail("size_kept", "nobody asked for " + std::to_string(chosen->nodes) + " nodes");
    }
    const auto* formed = std::get_if<core::WorldFormed>(&record.fact);
    if (formed == nullptr || chosen_ == 0) return;
    MARK("a world forms in a chosen size");
    // Such a job needs as many ranks as before, if it was asked before that was known.
    if (world.options().saves.has_own_parameters) return;
    if (formed->world.seats.size() <= chosen_) return;
    world.Fail("size_kept", "a world of " + std::to_string(formed->world.seats.size()) +
                                " nodes forms, and the user chose " + std::to_string(chosen_));
  }

 private:
  void Note(const core::Record& record) {
    if (const auto* chosen = std::get_if<core::SizeChosen>(&record.fact)) chosen_ = chosen->nodes;
    const auto* past = std::get_if<core::PastRemembered>(&record.fact);
    if (past != nullptr) chosen_ = past->memo.chosen_nodes;
  }

  std::set<uint32_t> asked_;
  uint32_t chosen_ = 0;  // by the journal; 0: none
};

}  // namespace

std::unique_ptr<Check> MakeSizeKept() { return std::make_unique<SizeKept>(); }

}  // namespace paceline::sim
