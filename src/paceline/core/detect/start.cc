// A world that does not get going: a rank that never runs would let the others wait for ever.

#include "paceline/core/detect/detectors.h"

namespace paceline::core {

Verdict JudgeStart(const NodeView& view, Instant now) {
  const JobState& state = view.state;
  if (state.phase != Phase::kStarting || !state.IsSeated(view.node.id)) return {};
  if (view.link.running || view.node.finished) return {};
  const Duration limit = state.spec.timers.start_timeout;
  const Instant late_at = state.phase_since + limit;
  if (now < late_at) return {Verdict::Kind::kHealthy, late_at, ""};
  return {Verdict::Kind::kStuck, Instant::Max(), "its ranks did not run within " + ToString(limit)};
}

}  // namespace paceline::core
