// A rank restarted for a hang must have been stopped. Ranks that wait for it, ranks behind a cut
// network, and slow ranks must not be restarted.

#include <string>

#include "paceline/base/mark.h"
#include "paceline/core/hang/hang.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// From the look at a process to the verdict: the slowest answer is awaited, and messages travel.
constexpr Duration kVerdictMax = core::kEvidenceWait + Duration::Seconds(2);

class CulpritRight final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    for (const core::Record& record : turn.actions.records) {
      const auto* judged = std::get_if<core::HangJudged>(&record.fact);
      if (judged != nullptr && judged->acts) Judge(world, *judged);
    }
  }

 private:
  static void Judge(SimWorld& world, const core::HangJudged& judged) {
    MARK("a hung rank is restarted");
    const Rank culprit = judged.culprits.front();
    const Instant now = world.queue().now();
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      for (const auto& [pid, process] : world.node(i).processes()) {
        if (process.generation != judged.generation || process.rank != culprit) continue;
        const bool was_stopped =
            !world.node(i).IsAwake(pid) ||
            (process.frozen_until > Instant() && now - process.frozen_until <= kVerdictMax);
        if (was_stopped) return;
        world.Fail("culprit_right", "rank " + ToString(culprit) +
                                        " was restarted and was never stopped: " + judged.sentence);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Check> MakeCulpritRight() { return std::make_unique<CulpritRight>(); }

}  // namespace paceline::sim
