#pragma once

// The list of detectors, and the limits they share.

#include <span>

#include "paceline/base/instant.h"
#include "paceline/core/detect/detector.h"

namespace paceline::core {

std::span<const Detector> Detectors();

// The worst of all detectors' verdicts on a node; `until` is the earliest of theirs.
Verdict JudgeNode(const NodeView& view, Instant now);

// How often each agent reports: stretched so that all together stay below the master's limit.
Duration HeartbeatInterval(const JobSpec& spec);

// The least silence after which a node is lost, whatever its loss costs: lost_after, never less
// than kHeartbeatsMissedMin beats, plus kLoopDelayFactor times the lateness that its agent measured
// of late, at most lost_after_max.
Duration SilenceLimitMin(const JobSpec& spec, Duration loop_delay);
inline constexpr int kHeartbeatsMissedMin = 4;
inline constexpr int kLoopDelayFactor = 4;

// The silence after which this node is lost: what its loss costs (loss_cost.h), at least
// SilenceLimitMin(), at most lost_after_max.
Duration SilenceLimit(const NodeView& view);

// A stream that breaks while its node was heard is no silence: the host answers, and an agent that
// died alone is back soon. It gets this time, unless the platform says that the node is gone.
constexpr Duration DisconnectedLimit(Duration silence_limit_min) {
  return silence_limit_min * 3 / 2;
}

// Silence after which a node is suspect.
Duration SuspectAfter(const JobSpec& spec, Duration loop_delay);

// Beats missed before a node is suspect.
inline constexpr int kHeartbeatsSuspect = 2;

}  // namespace paceline::core
