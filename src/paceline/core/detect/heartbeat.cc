// Silence of a node that has a stream: its agent is frozen, or the network swallows its words.

#include "paceline/core/detect/detectors.h"

namespace paceline::core {

Verdict JudgeHeartbeat(const NodeView& view, Instant now) {
  if (!view.link.connection) return {};
  const JobSpec& spec = view.state.spec;
  const Duration limit = SilenceLimit(spec, view.link.loop_delay);
  const Instant lost_at = view.link.last_heard + limit;
  const Instant suspect_at =
      view.link.last_heard + std::min(limit, HeartbeatInterval(spec) * kHeartbeatsSuspect +
                                                 view.link.loop_delay * kLoopDelayFactor);
  if (now >= lost_at) {
    return {Verdict::Kind::kLost, Instant::Max(),
            "was silent for " + ToString(now - view.link.last_heard) + " (limit " +
                ToString(limit) + ")"};
  }
  if (now >= suspect_at) {
    return {Verdict::Kind::kSuspect, lost_at,
            "has been silent for " + ToString(now - view.link.last_heard)};
  }
  return {Verdict::Kind::kHealthy, suspect_at, ""};
}

}  // namespace paceline::core
