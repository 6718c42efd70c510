// An effect outside the master follows durable records only.
//
// A later master of the same term knows all durable records. A master of the next term knows the
// copied records only, and no effect waits for a copy.

#include <algorithm>

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class NoAckLost final : public Check {
 public:
  void Persisted(SimWorld& world, const core::Record& record) override {
    if (record.seq != durable_.next()) {
      world.Fail("no_ack_lost",
                 "record " + ToString(record.seq) + " was written after " + ToString(durable_));
    }
    durable_ = record.seq;
  }

  void Ran(SimWorld& world, const core::Effect& effect, RecordSeq decided) override {
    if (decided > durable_) {
      world.Fail("no_ack_lost", "an effect of record " + ToString(decided) + " ran when only " +
                                    ToString(durable_) + " was durable");
    }
    acted_on_ = std::max(acted_on_, decided);
    if (const auto* assign = std::get_if<core::AssignNode>(&effect)) {
      generation_ = std::max(generation_, assign->assignment.generation);
    }
  }

  void Succeeded(SimWorld& world) override {
    durable_ = RecordSeq(world.master().durable().size());
    acted_on_ = RecordSeq();
    generation_ = Generation();
  }

  void Restored(SimWorld& world) override {
    const core::JobState& state = world.master().job().state();
    if (state.last_seq < acted_on_) {
      world.Fail("no_ack_lost", "record " + ToString(acted_on_) +
                                    " had taken effect and is unknown to the new master");
    }
    if (state.generation < generation_) {
      world.Fail("no_ack_lost", "generation " + ToString(generation_) +
                                    " was told to a node and is unknown to the new master");
    }
  }

 private:
  RecordSeq durable_;
  RecordSeq acted_on_;
  Generation generation_;
};

}  // namespace

std::unique_ptr<Check> MakeNoAckLost() { return std::make_unique<NoAckLost>(); }

}  // namespace paceline::sim
