// Recovery ends: charged failures without progress are bounded, and after the decision to stop
// nothing is recovered.

#include <string>

#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// Far above every budget of the simulated jobs.
constexpr uint32_t kFailuresMax = 64;

class LadderEnds final : public Check {
 public:
  void Persisted(SimWorld& world, const core::Record& record) override {
    if (std::holds_alternative<core::ProgressMade>(record.fact)) failures_ = 0;
    if (const auto* failed = std::get_if<core::RankFailed>(&record.fact)) {
      failures_ += failed->charged ? 1 : 0;
    }
    if (failures_ > kFailuresMax) {
      world.Fail("ladder_ends", std::to_string(failures_) + " failures without progress");
    }
    const bool recovers = std::holds_alternative<core::WorldFormed>(record.fact) ||
                          std::holds_alternative<core::RecoveryDecided>(record.fact);
    if (is_over_ && recovers) {
      world.Fail("ladder_ends", "after the end was decided: " + core::Sentence(record));
    }
    NoteEnd(record);
  }

  void Succeeded(SimWorld& world) override {
    is_over_ = false;
    for (const core::Record& record : world.master().durable()) NoteEnd(record);
  }

 private:
  void NoteEnd(const core::Record& record) {
    is_over_ = is_over_ || std::holds_alternative<core::StopDecided>(record.fact) ||
               std::holds_alternative<core::JobFinished>(record.fact);
  }

  uint32_t failures_ = 0;
  bool is_over_ = false;
};

}  // namespace

std::unique_ptr<Check> MakeLadderEnds() { return std::make_unique<LadderEnds>(); }

}  // namespace paceline::sim
