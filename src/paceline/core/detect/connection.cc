// No stream: the agent died, or it has not come back to a new master yet. Its ranks may be well.

#include "paceline/core/detect/detectors.h"

namespace paceline::core {

Verdict JudgeConnection(const NodeView& view, Instant now) {
  if (view.link.connection) return {};
  const Timers& timers = view.state.spec.timers;
  if (view.link.gone) {
    return {Verdict::Kind::kLost, Instant::Max(), "died with all its ranks"};
  }
  if (!view.link.registered) {
    const Instant lost_at = view.link.last_heard + timers.reattach_window;
    if (now >= lost_at) {
      return {Verdict::Kind::kLost, Instant::Max(),
              "did not come back to the new master within " + ToString(timers.reattach_window)};
    }
    return {Verdict::Kind::kSuspect, lost_at, "has not come back to the new master yet"};
  }
  const Duration limit = SilenceLimit(view.state.spec, view.link.loop_delay) * kDisconnectedFactor;
  const Instant lost_at = view.link.disconnected_at + limit;
  if (now >= lost_at) {
    return {Verdict::Kind::kLost, Instant::Max(),
            "lost its connection and did not come back within " + ToString(limit)};
  }
  return {Verdict::Kind::kSuspect, lost_at, "lost its connection"};
}

}  // namespace paceline::core
