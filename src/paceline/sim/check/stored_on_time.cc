// With an interval by time, the next step for storage is announced when the interval has passed
// since the last commit, or since the job's first save. New worlds and masters do not change that,
// so a job that fails more often than the interval still stores its steps.
//
// Checked by the master's clock, after the master has looked at new reports. A failed try, an end,
// or a node that has not reported in this world is an excuse.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kAnnounceSlack = Duration::Seconds(1);

class StoredOnTime final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    const SaveOptions& saves = world.options().saves;
    if (!saves.is_used || saves.terms.policy.kind != PersistPolicy::Kind::kTime) return;
    Note(world, turn);
    if (!IsReady(world)) {
      ready_since_.reset();
      return;
    }
    if (!ready_since_.has_value()) ready_since_ = turn.now;
    if (!std::holds_alternative<core::TimePassed>(turn.event)) return;
    // The ledger notes the first save only when all nodes of the world are connected.
    if (seen_in_ == generation_ && !first_save_at_.has_value()) first_save_at_ = turn.now;
    const std::optional<Instant> since = committed_at_.has_value() ? committed_at_ : first_save_at_;
    if (announced_ == generation_ || !since.has_value()) return;
    const Instant due = std::max(*since + saves.terms.policy.time, *ready_since_) + kAnnounceSlack;
    if (looked_at_ <= due) return;
    world.Fail("stored_on_time",
               "world " + ToString(generation_) + " announces no step for storage, " +
                   ToString(turn.now - *since) + " after the last; the interval is " +
                   ToString(saves.terms.policy.time));
  }

  void Succeeded(SimWorld&) override { first_save_at_.reset(); }

  void Restored(SimWorld& world) override {
    looked_at_ = Instant();
    reported_.clear();
    ready_since_.reset();
    announced_ = Generation();
    committed_at_.reset();
    for (const core::Record& record : world.master().durable()) Note(record);
  }

 private:
  void Note(const core::Record& record) {
    if (const auto* committed = std::get_if<core::CheckpointCommitted>(&record.fact)) {
      committed_at_ = record.at;
      committed_ = committed->name;
      announced_ = Generation();
    }
    // Older checkpoints may be readable or not: this one was the newest. A node that listened to an
    // old master may report an older one.
    const auto* damaged = std::get_if<core::CheckpointDamaged>(&record.fact);
    if (damaged != nullptr && damaged->name == committed_) committed_at_.reset();
  }

  void Note(SimWorld& world, const Turn& turn) {
    const std::optional<World>& formed = world.master().job().state().world;
    const Generation generation = formed.has_value() ? formed->generation : Generation();
    if (std::exchange(generation_, generation) != generation) {
      ready_since_.reset();
      announced_ = Generation();
    }
    for (const core::Record& record : turn.actions.records) Note(record);
    if (const auto* told = std::get_if<core::CheckpointReported>(&turn.event)) {
      reported_[told->node] = {told->connection, told->report.generation};
      has_news_ = true;
      for (const MemoryImage& image : told->report.images) {
        if (image.saved.generation == generation.value()) reported_in_ = generation;
      }
    }
    // Reports count when the master looks at all of them.
    if (std::holds_alternative<core::TimePassed>(turn.event) && formed.has_value()) {
      if (std::exchange(has_news_, false)) looked_at_ = turn.now;
      seen_in_ = reported_in_;
    }
    for (const core::Effect& effect : turn.actions.effects) {
      const auto* order = std::get_if<core::OrderCheckpoint>(&effect);
      if (order == nullptr) continue;
      const bool is_announced = order->order.hold.has_value() || order->order.persist.has_value();
      if (!is_announced) continue;
      if (announced_ != generation && generation.value() > 1) MARK("a later world stores on time");
      announced_ = generation;
    }
  }

  bool IsReady(SimWorld& world) const {
    const core::Job& job = world.master().job();
    const core::JobState& state = job.state();
    const bool trains =
        state.phase == core::Phase::kStarting || state.phase == core::Phase::kRunning;
    if (!trains || !state.world.has_value() || !job.checkpoints().problem().empty()) return false;
    const core::RestoreDecided& restored = state.checkpoints.restore;
    if (restored.generation != state.world->generation) return false;
    // A world that restored nothing announces a step only after its first save.
    if (restored.saved.step < 0 && seen_in_ != restored.generation) return false;
    for (const Seat& seat : state.world->seats) {
      const auto link = job.links().find(seat.node);
      const auto reported = reported_.find(seat.node);
      if (link == job.links().end() || reported == reported_.end()) return false;
      const auto& [connection, generation] = reported->second;
      const bool has_spoken =
          link->second.connection == connection && generation == state.world->generation;
      if (!has_spoken) return false;
    }
    return true;
  }

  std::map<NodeId, std::pair<ConnectionId, Generation>> reported_;
  bool has_news_ = false;   // reports since the last look, …
  Instant looked_at_;       // … that had any
  Generation reported_in_;  // the newest world with a reported save, …
  Generation seen_in_;      // … and seen by the master
  std::optional<Instant> first_save_at_;
  std::optional<Instant> committed_at_;
  std::string committed_;  // its name
  std::optional<Instant> ready_since_;
  Generation generation_;
  Generation announced_;  // the last world with an announced step, since the last commit
};

}  // namespace

std::unique_ptr<Check> MakeStoredOnTime() { return std::make_unique<StoredOnTime>(); }

}  // namespace paceline::sim
