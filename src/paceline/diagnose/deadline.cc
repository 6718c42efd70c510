#include "paceline/diagnose/deadline.h"

#include <algorithm>

namespace paceline::diagnose {
namespace {

// For a rank whose speed is unknown: reported after ten minutes, never acted on.
constexpr Deadlines kPatient{.named = Duration::Seconds(600)};

Deadlines DeadlinesByPhase(const RankEvidence& rank) {
  const Duration step = rank.step_p99;
  const Duration longest = rank.phase_longest;
  switch (rank.phase) {
    case RankPhase::kForward:
    case RankPhase::kBackward:
    case RankPhase::kOptimizer:
      if (step == Duration()) return kPatient;  // it has not made two steps
      return {.named = QuietLimit(step),
              .blocked = BlockedLimit(step),
              .busy = std::max(Duration::Seconds(120), step * 50)};
    case RankPhase::kData:
    case RankPhase::kCheckpoint: {
      if (longest == Duration()) return {.named = Duration::Seconds(60)};
      const Duration limit = std::max(Duration::Seconds(600), longest * 10);
      return {
          .named = std::max(Duration::Seconds(10), longest * 3), .blocked = limit, .busy = limit};
    }
    case RankPhase::kStart: return {.named = Duration::Seconds(60)};
    case RankPhase::kCompile:
    case RankPhase::kEvaluation:
    case RankPhase::kUnknown:
    case RankPhase::kEnd: break;
  }
  return kPatient;
}

}  // namespace

Duration QuietLimit(Duration step_p99) { return std::max(kQuietMin, step_p99 * 3); }

Duration BlockedLimit(Duration step_p99) { return std::max(Duration::Seconds(30), step_p99 * 20); }

Deadlines DeadlinesOf(const RankEvidence& rank) {
  constexpr int kPressedTimes = 3;
  Deadlines limits = DeadlinesByPhase(rank);
  if (!rank.is_pressed) return limits;
  for (Duration* limit : {&limits.named, &limits.blocked, &limits.busy}) {
    if (!limit->is_infinite()) *limit = *limit * kPressedTimes;
  }
  return limits;
}

}  // namespace paceline::diagnose
