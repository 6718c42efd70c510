#pragma once

// Slow ranks and bad losses: they are recorded for people, and no decision follows from them.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// If two series of bad losses in a world begin within this many steps, they are one series that two
// ranks reported.
inline constexpr int64_t kSameRunSteps = LossWatch::kGoodAgain;

void OnPaceJudged(Turn& turn, const PaceJudged& event);

// Takes the bad loss that a rank of the current world may have reported.
void HearOfLoss(Turn& turn, const RankReport& rank);
// Records a reported bad loss, once. Returns true if it wrote a record.
bool NoteLoss(Turn& turn);

}  // namespace paceline::core
