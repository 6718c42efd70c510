#pragma once

// How long an awaited rank may take before it is named, and before it is restarted.

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"

namespace paceline::diagnose {

struct Deadlines {
  Duration named;
  Duration blocked = Duration::Infinite();  // until a sleeping rank is restarted; infinite: never
  Duration busy = Duration::Infinite();     // until a computing rank is restarted
  // `blocked` counts only the time in which all its processes neither computed nor moved bytes.
  bool must_idle = false;
};

// The deadlines of an absent rank, by what it is doing. A rank that saves alone may take its time,
// however short the waiting ranks' steps are. On a host without a free processor they are three
// times as long for a rank that computes, or whose children do: a rank that sleeps does not wait
// for a processor. docs/failure-model.md has the table.
Deadlines DeadlinesOf(const RankEvidence& rank);

// When a rank is named for which others seem to wait, without a record that they do.
Duration UnseenLimit(const RankEvidence& rank);

// The time after which an agent reports a rank as quiet: three slow steps, at least three seconds.
// A stopped rank, and one that made another call than its group, is named and restarted after the
// same time.
inline constexpr Duration kQuietMin = Duration::Seconds(3);
Duration QuietLimit(Duration step_p99);
// The time after which a rank that sleeps during training is restarted, and a collective that no
// rank leaves is reported.
Duration BlockedLimit(Duration step_p99);

}  // namespace paceline::diagnose
