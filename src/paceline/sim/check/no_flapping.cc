// A spare takes the ranks of a host only if that host is slow, and never twice within an hour.

#include <map>

#include "paceline/base/mark.h"
#include "paceline/core/record.h"
#include "paceline/core/world/slow_node.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

class NoFlapping final : public Check {
 public:
  void Persisted(SimWorld& world, const core::Record& record) override {
    const auto* decided = std::get_if<core::RecoveryDecided>(&record.fact);
    if (decided == nullptr || decided->rung != core::Rung::kReplaceSlow) return;
    MARK("a slow host is moved away");
    const std::optional<uint32_t> slow = world.options().pace.slow_node;
    if (!slow.has_value() || world.node(*slow).name() != decided->blamed_name) {
      world.Fail("no_flapping", decided->blamed_name + " is not slow: " + decided->reason);
      return;
    }
    const auto [moved, is_first] = moved_.try_emplace(decided->blamed_name, record.at);
    if (!is_first && record.at - moved->second < core::kMovedOnce) {
      world.Fail("no_flapping", decided->blamed_name + " lost its ranks twice within an hour");
    }
    moved->second = record.at;
  }

  // The next master does not know what was lost with the host of the one before.
  void Succeeded(SimWorld&) override { moved_.clear(); }

 private:
  std::map<std::string, Instant> moved_;
};

}  // namespace

std::unique_ptr<Check> MakeNoFlapping() { return std::make_unique<NoFlapping>(); }

}  // namespace paceline::sim
