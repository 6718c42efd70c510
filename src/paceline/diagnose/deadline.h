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

// A stopped rank, or one that made another call than its group, is named and acted on after this.
Duration AtOnce(const RankEvidence& rank);

// The least quiet that is worth a look: three times what a step takes, at least three seconds. An
// agent tells of a rank that was quiet for so long.
inline constexpr Duration kQuietMin = Duration::Seconds(3);
Duration QuietLimit(Duration step_p99);

}  // namespace paceline::diagnose
