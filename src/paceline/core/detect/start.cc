// A world that does not start: a rank that never runs keeps the others waiting.

#include <algorithm>

#include "paceline/core/detect/detectors.h"

namespace paceline::core {
namespace {

// After so many start timeouts a starter that still imports counts as hung. The imports of a script
// from a cold network disk take minutes.
constexpr int kImportTimes = 10;

}  // namespace

Verdict JudgeStart(const NodeView& view, Instant now) {
  const JobState& state = view.state;
  if (state.phase != Phase::kStarting || !state.IsSeated(view.node.id)) return {};
  if (view.link.running || view.node.finished) return {};
  const bool imports = view.link.awaits_starter;
  const Duration limit = state.spec.timers.start_timeout * (imports ? kImportTimes : 1);
  // A restarted master counts the limit from its own start: while it was down it received nothing
  // from the nodes, and the wall clock may have been set. Time in which orders waited for the
  // journal does not count.
  const Instant late_at = std::max(state.phase_since, view.link.listens_since) + limit;
  if (now < late_at) return {Verdict::Kind::kHealthy, late_at, ""};
  if (imports) {
    return {Verdict::Kind::kLost, Instant::Max(),
            "did not finish the imports for its ranks within " + ToString(limit)};
  }
  if (view.link.carried_out < state.world->generation) {
    // The node did not even spawn its ranks: it may not receive our messages, though we hear it.
    return {Verdict::Kind::kLost, Instant::Max(),
            "did not carry out its assignment within " + ToString(limit)};
  }
  return {Verdict::Kind::kStuck, Instant::Max(), "its ranks did not run within " + ToString(limit)};
}

}  // namespace paceline::core
