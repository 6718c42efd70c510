#pragma once

// Records how the ranks spent their time: once a minute, and before each record that changes what
// the world does, so that the time before it is known by itself.

#include "paceline/core/turn.h"

namespace paceline::core {

// 1440 records a day have about 200 KB.
inline constexpr Duration kAccountEvery = Duration::Seconds(60);

void OnTimeTold(Turn& turn, const TimeTold& event);
// Records the sums if a minute has passed. Returns true if it did.
bool NoteTime(Turn& turn);
// The record to be made before `fact`, at `now`; none if `fact` changes nothing or nothing was
// told. `steps` are those of the current world.
std::optional<TimeAccounted> AccountBefore(const Fact& fact, const JobState& state, Instant now,
                                           int64_t steps, TimeWatch* watch);

}  // namespace paceline::core
