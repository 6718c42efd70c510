#include "paceline/core/slow/slow.h"

#include <algorithm>

#include "paceline/base/mark.h"

namespace paceline::core {

namespace {

bool HasRanks(const std::vector<SlowFinding>& findings, const std::vector<Rank>& ranks) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const SlowFinding& one) { return one.ranks == ranks; });
}

}  // namespace

void OnPaceJudged(Turn& turn, const PaceJudged& event) {
  const JobState& state = turn.state();
  const bool trains = state.phase == Phase::kStarting || state.phase == Phase::kRunning;
  if (!trains || event.generation != state.world->generation) {
    MARK("stale pace");
    return;
  }
  const std::vector<SlowFinding> told = state.slow;
  for (const SlowFinding& one : told) {
    if (HasRanks(event.findings, one.ranks)) continue;
    MARK("no longer slow");
    turn.Emit(RankNoLongerSlow{state.world->generation, one}, {state.world_seq});
  }
  for (const SlowFinding& one : event.findings) {
    if (one.ranks.empty() || HasRanks(told, one.ranks)) continue;
    MARK("slow rank told");
    turn.Emit(RankSlow{state.world->generation, one}, {state.world_seq});
  }
}

void HearOfLoss(Turn& turn, const RankReport& rank) {
  if (rank.bad_loss.count == 0) return;
  std::optional<LossWentBad>& heard = turn.watch().bad_loss;
  const LossWentBad news{rank.generation, rank.rank, rank.bad_loss};
  if (!heard.has_value() || heard->generation != news.generation) {
    heard = news;
    return;
  }
  // A newer run, or the rank with which this one began.
  const int64_t later = news.bad.step - heard->bad.step;
  if (later > kSameRunSteps || (later < 0 && later >= -kSameRunSteps)) heard = news;
}

bool NoteLoss(Turn& turn) {
  const std::optional<LossWentBad>& heard = turn.watch().bad_loss;
  const JobState& state = turn.state();
  if (!heard.has_value() || heard->generation != state.world->generation) return false;
  const bool is_told =
      state.bad_loss_step >= 0 && heard->bad.step <= state.bad_loss_step + kSameRunSteps;
  if (is_told) return false;
  MARK("bad loss told");
  turn.Emit(*heard, {state.world_seq});
  return true;
}

}  // namespace paceline::core
