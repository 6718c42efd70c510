#include "paceline/core/slow/time_told.h"

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/core/slow/time_desk.h"

namespace paceline::core {

namespace {

bool Trains(const JobState& state) {
  return state.phase == Phase::kStarting || state.phase == Phase::kRunning;
}

// After these the world, if it goes on, does something else than before.
bool EndsAStretch(const Fact& fact) {
  return std::holds_alternative<WorldRunning>(fact) || std::holds_alternative<WorldEnded>(fact) ||
         std::holds_alternative<SoloRestarted>(fact) ||
         std::holds_alternative<ProgressMade>(fact) || std::holds_alternative<HangJudged>(fact) ||
         std::holds_alternative<HangEnded>(fact) || std::holds_alternative<StopDecided>(fact) ||
         std::holds_alternative<JobFinished>(fact);
}

// What the ranks of the current world have spent until `now`; none if no rank has told it yet.
std::optional<TimeAccounted> Account(const JobState& state, Instant now, int64_t steps,
                                     TimeWatch* watch) {
  const TimeTold& told = watch->told;
  if (!Trains(state) || told.ranks == 0 || told.generation != state.world->generation) {
    return std::nullopt;
  }
  TimeAccounted account{told.generation, told.ranks, told.spent, steps};
  const int64_t since = std::min(now - watch->told_at, kGuessMax).milliseconds();
  for (size_t i = 0; i < kTimeParts; ++i) account.spent[i] += since * told.now[i];
  watch->accounted = told.generation;
  watch->accounted_at = now;
  return account;
}

}  // namespace

void OnTimeTold(Turn& turn, const TimeTold& event) {
  const JobState& state = turn.state();
  if (!Trains(state) || event.generation != state.world->generation) {
    MARK("stale times");
    return;
  }
  turn.watch().time.told = event;
  turn.watch().time.told_at = turn.now();
}

bool NoteTime(Turn& turn) {
  TimeWatch& watch = turn.watch().time;
  const JobState& state = turn.state();
  if (state.phase != Phase::kRunning) return false;
  const bool is_first = watch.accounted != state.world->generation;
  if (!is_first && turn.now() - watch.accounted_at < kAccountEvery) return false;
  const auto account = Account(state, turn.now(), turn.watch().step_count, &watch);
  if (!account.has_value()) return false;
  MARK("time accounted");
  turn.Emit(*account, {state.world_seq});
  return true;
}

std::optional<TimeAccounted> AccountBefore(const Fact& fact, const JobState& state, Instant now,
                                           int64_t steps, TimeWatch* watch) {
  return EndsAStretch(fact) ? Account(state, now, steps, watch) : std::nullopt;
}

}  // namespace paceline::core
