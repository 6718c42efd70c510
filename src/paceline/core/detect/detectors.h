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

// Silence after which a node is lost: lost_after, never less than kHeartbeatsMissedMin beats, plus
// kLoopDelayFactor times the lateness that its agent measured of late, at most lost_after_max.
Duration SilenceLimit(const JobSpec& spec, Duration loop_delay);
inline constexpr int kHeartbeatsMissedMin = 4;
inline constexpr int kLoopDelayFactor = 4;

// A broken stream is no silence: the host answers, and an agent that died alone is back soon. So
// it gets this many silence limits, unless the platform says that the whole node is gone.
inline constexpr int kDisconnectedFactor = 3;

// Beats missed before a node is suspect.
inline constexpr int kHeartbeatsSuspect = 2;

}  // namespace paceline::core
