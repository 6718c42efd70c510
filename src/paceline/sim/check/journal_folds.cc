// After every event a second job, which only folds records, must equal the deciding one. A third
// one folds the durable records and must equal a restored master.

#include "paceline/core/job.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

constexpr uint32_t kNodesEachTime = 64;

class JournalFolds final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    for (const core::Record& record : turn.actions.records) {
      if (record.seq != decided_.state().last_seq.next()) {
        world.Fail("journal_folds", "record " + ToString(record.seq) + " follows " +
                                        ToString(decided_.state().last_seq));
        return;
      }
      if (record.at < decided_.state().last_record_at) {
        world.Fail("journal_folds",
                   "record " + ToString(record.seq) + " is stamped before the one in front of it");
        return;
      }
      for (RecordSeq cause : record.causes) {
        if (cause >= record.seq || cause == RecordSeq()) {
          world.Fail("journal_folds",
                     "record " + ToString(record.seq) +
                         " names a cause that is not before it: " + ToString(cause));
          return;
        }
      }
      decided_.Restore(record);
    }
    // For every event in a small cluster; in a large one only after decisions.
    if (turn.actions.records.empty() && world.node_count() > kNodesEachTime) return;
    if (decided_.state() != world.master().job().state()) {
      world.Fail("journal_folds", "the live state is not the fold of the records, at record " +
                                      ToString(decided_.state().last_seq));
    }
  }

  void Persisted(SimWorld& world, const core::Record& record) override {
    if (record.seq == durable_.state().last_seq.next()) {
      durable_.Restore(record);
      return;
    }
    world.Fail("journal_folds", "record " + ToString(record.seq) + " was written after " +
                                    ToString(durable_.state().last_seq));
  }

  void Succeeded(SimWorld& world) override {
    durable_ = core::Job();
    for (const core::Record& record : world.master().durable()) durable_.Restore(record);
  }

  void Restored(SimWorld& world) override {
    if (durable_.state() != world.master().job().state()) {
      world.Fail("journal_folds", "the new master's state is not the fold of the journal");
    }
    decided_ = core::Job();
    for (const core::Record& record : world.master().durable()) decided_.Restore(record);
  }

 private:
  core::Job decided_;
  core::Job durable_;
};

}  // namespace

std::unique_ptr<Check> MakeJournalFolds() { return std::make_unique<JournalFolds>(); }

}  // namespace paceline::sim
