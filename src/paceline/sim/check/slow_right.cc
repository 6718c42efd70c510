// A rank is reported as slow only if it is slow. Noise, interruptions, lost messages and new
// masters must not make a rank look slow.

#include <string>

#include "paceline/base/mark.h"
#include "paceline/core/record.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class SlowRight final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    for (const core::Record& record : turn.actions.records) {
      const auto* slow = std::get_if<core::RankSlow>(&record.fact);
      if (slow == nullptr) continue;
      MARK("a slow rank is named");
      const std::optional<uint32_t> truth = world.options().pace.slow_rank;
      const auto& ranks = slow->finding.ranks;
      if (ranks.size() == 1 && truth == ranks.front().value()) continue;
      const std::optional<uint32_t> node = world.options().pace.slow_node;
      if (node.has_value() && world.node(*node).name() == slow->finding.node) continue;
      world.Fail("slow_right", "not slow: " + core::Sentence(record));
    }
  }
};

}  // namespace

std::unique_ptr<Check> MakeSlowRight() { return std::make_unique<SlowRight>(); }

}  // namespace paceline::sim
