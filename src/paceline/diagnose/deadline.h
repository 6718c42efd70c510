#pragma once

// How long a rank that is waited for may take before it is named, and before anything is done.

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"

namespace paceline::diagnose {

struct Deadlines {
  Duration named;
  Duration blocked = Duration::Infinite();  // acted on, when it sleeps; infinite: never
  Duration busy = Duration::Infinite();     // acted on, when it computes
};

// By what the rank does, the absent one: one that saves alone may take its time, however short the
// steps of those that wait for it. docs/failure-model.md has the table.
Deadlines DeadlinesOf(const RankEvidence& rank);

// An agent reports a rank as quiet after this: three slow steps, at least three seconds. A stopped
// rank, or one that made another call than its group, is named and acted on after the same time.
inline constexpr Duration kQuietMin = Duration::Seconds(3);
Duration QuietLimit(Duration step_p99);
// A rank that sleeps in the middle of training is acted on after this, and a collective that nobody
// leaves is told of.
Duration BlockedLimit(Duration step_p99);

}  // namespace paceline::diagnose
