#include "paceline/diagnose/deadline.h"

#include <algorithm>

namespace paceline::diagnose {
namespace {

// For a rank that may take long for a good reason: reported after ten minutes, never acted on.
constexpr Deadlines kPatient{.named = Duration::Seconds(600)};
// For a rank that does something for the first time, or whose steps are not known yet. It is
// reported like a rank that does not start, and never acted on.
constexpr Deadlines kFirst{.named = Duration::Seconds(60)};

Deadlines DeadlinesByPhase(const RankEvidence& rank) {
  const Duration step = rank.step_p99;
  const Duration longest = rank.phase_longest;
  switch (rank.phase) {
    case RankPhase::kForward:
    case RankPhase::kBackward:
    case RankPhase::kOptimizer:
      if (step == Duration()) return kFirst;  // fewer than 20 steps were timed
      return {.named = QuietLimit(step),
              .blocked = BlockedLimit(step),
              .busy = std::max(Duration::Seconds(120), step * 50)};
    case RankPhase::kData:
    case RankPhase::kCheckpoint: {
      if (longest == Duration()) return kFirst;
      const Duration limit = std::max(Duration::Seconds(600), longest * 10);
      return {
          .named = std::max(Duration::Seconds(10), longest * 3), .blocked = limit, .busy = limit};
    }
    case RankPhase::kStart: return kFirst;
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
  const bool computes = rank.state == 'R' || rank.cpu > Duration();
  if (!rank.is_pressed || !computes) return limits;
  for (Duration* limit : {&limits.named, &limits.blocked, &limits.busy}) {
    if (!limit->is_infinite()) *limit = *limit * kPressedTimes;
  }
  return limits;
}

}  // namespace paceline::diagnose
