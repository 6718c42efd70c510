// The number of actions for one event is bounded, and so is the queue for the disk.

#include <string>

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

constexpr size_t kNotesMax = 64;
constexpr size_t kBatchesMax = 10'000;
constexpr uint64_t kTurnsPerInstantMax = 2'000;  // more means an endless loop of deadlines

class Bounded final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    const size_t nodes = world.master().job().state().nodes.size();
    const size_t answer_max = 16 + 8 * nodes;
    Demand(world, turn.actions.records.size(), answer_max + nodes, "records in one answer");
    Demand(world, turn.actions.effects.size(), answer_max, "effects in one answer");
    Demand(world, turn.actions.notes.size(), kNotesMax + nodes, "notes in one answer");
    Demand(world, world.master().waiting_batch_count(), kBatchesMax, "answers before the disk");
    const bool is_timer = std::holds_alternative<core::TimePassed>(turn.event);
    timers_ = is_timer && turn.now == last_ ? timers_ + 1 : 0;
    last_ = turn.now;
    Demand(world, timers_, kTurnsPerInstantMax, "deadlines at one instant");
  }

 private:
  static void Demand(SimWorld& world, uint64_t count, uint64_t limit, const char* what) {
    if (count <= limit) return;
    world.Fail("bounded",
               std::to_string(count) + " " + what + ", " + std::to_string(limit) + " are allowed");
  }

  uint64_t timers_ = 0;
  Instant last_;
};

}  // namespace

std::unique_ptr<Check> MakeBounded() { return std::make_unique<Bounded>(); }

}  // namespace paceline::sim
