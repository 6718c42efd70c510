// No stream: the agent died, or has not reconnected to a new master. Its ranks may be alive.

#include <algorithm>

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
  const Instant broken_at = view.link.disconnected_at;
  const Duration loop_delay = view.link.loop_delay;
  Instant lost_at = broken_at + DisconnectedLimit(SilenceLimitMin(view.state.spec, loop_delay));
  // A stream that broke after a silence broke because of it: the network drops packets.
  const bool is_silence =
      broken_at - view.link.last_heard >= SuspectAfter(view.state.spec, loop_delay);
  if (is_silence) lost_at = std::max(lost_at, view.link.last_heard + SilenceLimit(view));
  if (now >= lost_at) {
    return {Verdict::Kind::kLost, Instant::Max(),
            "lost its connection and did not come back within " + ToString(lost_at - broken_at)};
  }
  return {Verdict::Kind::kSuspect, lost_at, "lost its connection"};
}

}  // namespace paceline::core
