// A checkpoint that was reported complete is complete, and stays so until a newer one is. Retention
// never removes the last one. Damage by a fault is allowed; that no rank restores it is checked in
// rank_saves.cc.

#include <string>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class NoLostCommit final : public Check {
 public:
  void Persisted(SimWorld& world, const core::Record& record) override {
    const auto* committed = std::get_if<core::CheckpointCommitted>(&record.fact);
    if (committed == nullptr) return;
    newest_ = *committed;
    Judge(world, "is reported complete");
  }

  void Look(SimWorld& world) override { Judge(world, "was reported complete"); }

  void Restored(SimWorld& world) override { Judge(world, "was reported complete"); }

  void Decided(SimWorld& world, const Turn&) override {
    if (world.storage().removal_count() == removals_) return;
    removals_ = world.storage().removal_count();
    MARK("retention removed a checkpoint");
    Judge(world, "was reported complete");
  }

  void AtQuiet(SimWorld& world) override {
    Judge(world, "was reported complete");
    if (newest_.has_value()) MARK("a checkpoint is complete at the end");
  }

 private:
  void Judge(SimWorld& world, const char* when) {
    if (!newest_.has_value()) return;
    const Storage& storage = world.storage();
    if (storage.hurt().contains(newest_->name)) return;
    const std::string wrong = storage.WhatIsWrongWith(newest_->name);
    if (wrong.empty() || IsSuperseded(storage)) return;
    world.Fail("no_lost_commit", newest_->name + " " + when + ", and " + wrong);
  }

  // A newer checkpoint is complete, but the master has not recorded it yet.
  bool IsSuperseded(const Storage& storage) const {
    for (const auto& [name, folder] : storage.folders()) {
      if (!folder.manifest.has_value() || folder.manifest->saved <= newest_->saved) continue;
      if (storage.hurt().contains(name) || storage.WhatIsWrongWith(name).empty()) return true;
    }
    return false;
  }

  std::optional<core::CheckpointCommitted> newest_;
  uint64_t removals_ = 0;
};

}  // namespace

std::unique_ptr<Check> MakeNoLostCommit() { return std::make_unique<NoLostCommit>(); }

}  // namespace paceline::sim
