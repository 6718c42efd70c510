#pragma once

// The list of detectors, and the limits they share.

#include <span>

#include "paceline/base/instant.h"
#include "paceline/core/detect/detector.h"

namespace paceline::core {

std::span<const Detector> Detectors();

// The worst of all detectors' verdicts on a node; `until` is the earliest one.
Verdict JudgeNode(const NodeView& view, Instant now);

// How often each agent reports. With many agents it is longer, so that the master's limit holds.
Duration HeartbeatInterval(const JobSpec& spec);

// The least silence after which a node is lost, whatever its loss costs: lost_after, at least
// kHeartbeatsMissedMin beats, plus kLoopDelayFactor times the delay that its agent measured
// recently; at most lost_after_max.
Duration SilenceLimitMin(const JobSpec& spec, Duration loop_delay);
inline constexpr int kHeartbeatsMissedMin = 4;
inline constexpr int kLoopDelayFactor = 4;

// The silence after which this node is lost: the cost of its loss (loss_cost.h), at least
// SilenceLimitMin(), at most lost_after_max.
Duration SilenceLimit(const NodeView& view);

// The limit for a broken stream without silence: the host answers, and a dead agent restarts soon.
// It does not apply if the platform reports that the node is gone.
constexpr Duration DisconnectedLimit(Duration silence_limit_min) {
  return silence_limit_min * 3 / 2;
}

// Silence after which a node is suspect.
Duration SuspectAfter(const JobSpec& spec, Duration loop_delay);

// Beats missed before a node is suspect.
inline constexpr int kHeartbeatsSuspect = 2;

}  // namespace paceline::core
