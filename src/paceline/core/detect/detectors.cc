#include "paceline/core/detect/detectors.h"

#include <algorithm>
#include <array>

#include "paceline/core/detect/loss_cost.h"

namespace paceline::core {

Verdict JudgeHeartbeat(const NodeView& view, Instant now);
Verdict JudgeConnection(const NodeView& view, Instant now);
Verdict JudgeStart(const NodeView& view, Instant now);

namespace {

constexpr std::array<Detector, 3> kDetectors = {{
    {"heartbeat", JudgeHeartbeat},
    {"connection", JudgeConnection},
    {"start", JudgeStart},
}};

Duration Limit(const JobSpec& spec, Duration loop_delay, Duration cost) {
  const Duration least =
      std::max(spec.timers.lost_after, HeartbeatInterval(spec) * kHeartbeatsMissedMin);
  const Duration most = std::max(least, spec.timers.lost_after_max);
  return std::min(std::max(least, cost) + loop_delay * kLoopDelayFactor, most);
}

int Severity(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kHealthy: return 0;
    case Verdict::Kind::kSuspect: return 1;
    case Verdict::Kind::kStuck: return 2;
    case Verdict::Kind::kLost: return 3;
  }
  return 0;
}

}  // namespace

std::span<const Detector> Detectors() { return kDetectors; }

Verdict JudgeNode(const NodeView& view, Instant now) {
  Verdict worst;
  Instant until = Instant::Max();
  for (const Detector& detector : kDetectors) {
    Verdict verdict = detector.judge(view, now);
    until = std::min(until, verdict.until);
    if (Severity(verdict.kind) > Severity(worst.kind)) worst = std::move(verdict);
  }
  worst.until = until;
  return worst;
}

Duration HeartbeatInterval(const JobSpec& spec) {
  const int64_t nodes = int64_t{spec.nodes_max} + spec.spares;
  const int64_t beats = std::max<int64_t>(1, spec.budgets.heartbeats_per_second_max);
  const Duration least = Duration::Seconds(nodes) / beats;
  return std::max(spec.timers.heartbeat_interval, least);
}

Duration SilenceLimitMin(const JobSpec& spec, Duration loop_delay) {
  return Limit(spec, loop_delay, Duration());
}

Duration SilenceLimit(const NodeView& view) {
  return Limit(view.state.spec, view.link.loop_delay, CostOfLoss(view).total());
}

Duration SuspectAfter(const JobSpec& spec, Duration loop_delay) {
  const Duration beats = HeartbeatInterval(spec) * kHeartbeatsSuspect;
  return std::min(SilenceLimitMin(spec, loop_delay), beats + loop_delay * kLoopDelayFactor);
}

}  // namespace paceline::core
