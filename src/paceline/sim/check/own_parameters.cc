// If each rank has its own parameters under one name, only the same number of ranks can restore a
// checkpoint. So after its first commit, every world has that number of ranks, whatever is lost and
// whichever master decides.

#include <cstdint>
#include <map>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class OwnParameters final : public Check {
 public:
  // The next master does not know the records that were not copied.
  void Succeeded(SimWorld& world) override {
    last_ = fixed_ = 0;
    for (const core::Record& record : world.master().durable()) Persisted(world, record);
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    if (!world.options().saves.has_own_parameters) return;
    if (const auto* committed = std::get_if<core::CheckpointCommitted>(&record.fact)) {
      const auto saved_by = ranks_of_.find(committed->saved.generation);
      if (saved_by != ranks_of_.end()) fixed_ = saved_by->second;
      return;
    }
    const auto* formed = std::get_if<core::WorldFormed>(&record.fact);
    if (formed == nullptr) return;
    const uint32_t ranks = formed->world.world_size();
    // A commit of an older world does not apply if a world of another size has started since.
    if (fixed_ != 0 && last_ == fixed_) {
      MARK("a world forms where ranks have parameters of their own");
      if (ranks != fixed_) {
        world.Fail("own_parameters", "a world of " + std::to_string(ranks) +
                                         " ranks forms, and only " + std::to_string(fixed_) +
                                         " can go on");
      }
    }
    last_ = ranks;
    ranks_of_[formed->world.generation.value()] = ranks;
  }

 private:
  std::map<uint64_t, uint32_t> ranks_of_;  // of each world
  uint32_t last_ = 0;                      // of the newest world
  uint32_t fixed_ = 0;                     // of the newest commit
};

}  // namespace

std::unique_ptr<Check> MakeOwnParameters() { return std::make_unique<OwnParameters>(); }

}  // namespace paceline::sim
