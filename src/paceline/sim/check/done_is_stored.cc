// Exit code 0 means that the last saved step is in storage.
//
// The check notes the newest complete step in memory when every rank is done, or has failed because
// storage refused its last step. When the job reports success, storage must have that step or a
// later one. Jobs that lose a host after that moment are excluded: they lose its memory.

#include <optional>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/checkpoint/memories.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class DoneIsStored final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    if (!world.options().saves.is_used) return;
    for (const core::Record& record : turn.actions.records) {
      const auto* stop = std::get_if<core::StopDecided>(&record.fact);
      if (stop == nullptr || stop->is_asked) continue;
      if (stop->exit_code != 0 && stop->exit_code != core::kExitNotStored) continue;
      newest_ = NewestWhole(world, /*with_silent=*/true);
      boots_ = Boots(world);
    }
  }

  void AtQuiet(SimWorld& world) override {
    const Master& master = world.master();
    if (!master.has_finished() || !newest_.has_value() || boots_ != boots_at_end_) return;
    if (master.exit_code() == core::kExitNotStored) MARK("a job ended without storage");
    if (master.exit_code() != 0) return;
    MARK("a job that ended well is compared with storage");
    for (const auto& [name, folder] : world.storage().folders()) {
      if (!folder.manifest.has_value()) continue;
      if (!world.workload().IsEarlier(folder.manifest->saved, *newest_)) return;
    }
    world.Fail("done_is_stored", "the job ended with 0, and " + Say(*newest_) + " of generation " +
                                     std::to_string(newest_->generation) + " is not in storage");
  }

  void Ran(SimWorld& world, const core::Effect& effect, RecordSeq) override {
    if (std::holds_alternative<core::FinishJob>(effect)) boots_at_end_ = Boots(world);
  }

 private:
  std::optional<SavedStep> newest_;
  BootCounts boots_;
  BootCounts boots_at_end_;
};

}  // namespace

std::unique_ptr<Check> MakeDoneIsStored() { return std::make_unique<DoneIsStored>(); }

}  // namespace paceline::sim
