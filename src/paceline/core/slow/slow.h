#pragma once

// Slow ranks and bad losses: recorded, so that they are told, and never acted on.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// A run of bad losses that begins so soon after another one of the world is the same, heard of from
// another rank.
inline constexpr int64_t kSameRunSteps = LossWatch::kGoodAgain;

void OnPaceJudged(Turn& turn, const PaceJudged& event);

// That rank of the current world may have told of a bad loss.
void HearOfLoss(Turn& turn, const RankReport& rank);
// Records what was heard of, once. True: a record was written.
bool NoteLoss(Turn& turn);

}  // namespace paceline::core
