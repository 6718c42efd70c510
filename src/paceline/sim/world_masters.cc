// A job has masters of several terms, one after the other; a former one may live beside the present
// one for a while.

#include <utility>

#include "paceline/sim/world.h"

namespace paceline::sim {

void SimWorld::NextMaster(Duration pause) {
  EndFormer();
  former_ = std::exchange(master_, std::make_unique<Master>(*this, master_->term() + 1));
  queue_.After(pause, [this, term = master_->term()] {
    if (master_->term() == term && !is_master_held_ && !is_master_unwatched_) master_->Start();
  });
}

void SimWorld::EndFormer() {
  if (former_ == nullptr) return;
  former_->Crash();
  former_masters_.push_back(std::move(former_));
}

void SimWorld::LoseMaster(Duration pause) {
  ForEachCheck([&](Check& check) { check.MasterLost(*this); });
  master_->LoseHost();
  NextMaster(pause);
}

void SimWorld::MisplaceMaster(Duration pause, Duration away, Duration back) {
  ForEachCheck([&](Check& check) { check.MasterLost(*this); });
  trace_.Add(queue_.now(), "master", "misplaced", master_->incarnation());
  master_->Demote();
  master_->Freeze();
  network_.StrandAll(master_->incarnation());
  NextMaster(pause);
  const uint64_t incarnation = former_->incarnation();
  const auto when_former = [this, incarnation](Duration wait, auto task) {
    queue_.After(wait, [this, incarnation, task] {
      if (former_ != nullptr && former_->incarnation() == incarnation) task();
    });
  };
  when_former(away, [this] { former_->Thaw(); });
  when_former(away + back, [this] { EndFormer(); });
}

Master* SimWorld::MasterOf(uint64_t incarnation) {
  if (master_->incarnation() == incarnation) return master_.get();
  const bool is_former = former_ != nullptr && former_->incarnation() == incarnation;
  return is_former ? former_.get() : nullptr;
}

Master& SimWorld::MasterToDial() {
  const bool is_there = former_ != nullptr && former_->is_on() && !former_->is_frozen();
  return is_there && prng_.Chance(1, 4) ? *former_ : *master_;
}

void SimWorld::PersistedByFormer(const core::Record& record) {
  ForEachCheck([&](Check& check) { check.PersistedByFormer(*this, record); });
}

void SimWorld::MasterSucceeded() {
  ForEachCheck([&](Check& check) { check.Succeeded(*this); });
}

void SimWorld::MasterMet(const Node& node, uint64_t term) {
  ForEachCheck([&](Check& check) { check.MasterMet(*this, node, term); });
}

void SimWorld::Ordered(const Node& node, uint64_t term) {
  ForEachCheck([&](Check& check) { check.Ordered(*this, node, term); });
}

void SimWorld::Committed(const Node& node, uint64_t term) {
  ForEachCheck([&](Check& check) { check.Committed(*this, node, term); });
}

}  // namespace paceline::sim
