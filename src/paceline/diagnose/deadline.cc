#include "paceline/diagnose/deadline.h"

#include <algorithm>

namespace paceline::diagnose {
namespace {

// When a rank is named that may take long for a good reason. A phase that has taken longer before
// is given three times that, so that ordinary saves and evaluations are not reported each time.
Duration NamedLimit(const RankEvidence& rank) {
  constexpr Duration kLeast = Duration::Seconds(10);
  constexpr Duration kUsualMax = Duration::Seconds(60);
  const Duration usual = std::min(rank.phase_longest * 3, kUsualMax);
  return std::max({kLeast, rank.step_p99 * 5, usual});
}

// When a rank is restarted in a phase that may take long, by the longest one so far.
Duration LongLimit(Duration longest) { return std::max(Duration::Seconds(600), longest * 10); }

Deadlines DeadlinesByPhase(const RankEvidence& rank) {
  const Duration step = rank.step_p99;
  const Duration longest = rank.phase_longest;
  const Deadlines patient{.named = NamedLimit(rank)};  // never acted on
  switch (rank.phase) {
    case RankPhase::kForward:
    case RankPhase::kBackward:
    case RankPhase::kOptimizer:
      if (step == Duration()) return patient;  // fewer than 20 steps were timed
      return {.named = QuietLimit(step),
              .blocked = BlockedLimit(step),
              .busy = std::max(Duration::Seconds(120), step * 50)};
    case RankPhase::kData:
    case RankPhase::kCheckpoint: {
      if (longest == Duration()) return patient;
      const Duration limit = LongLimit(longest);
      return {.named = patient.named, .blocked = limit, .busy = limit};
    }
    case RankPhase::kUnknown:
      // A first evaluation may take long, and it computes or moves bytes.
      return {.named = patient.named, .blocked = LongLimit(longest), .must_idle = true};
    case RankPhase::kStart:
    case RankPhase::kCompile:
    case RankPhase::kEvaluation:
    case RankPhase::kRestore:
    case RankPhase::kEnd: break;
  }
  return patient;
}

}  // namespace

Duration UnseenLimit(const RankEvidence& rank) { return NamedLimit(rank); }

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
