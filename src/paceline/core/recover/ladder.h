#pragma once

// The recovery ladder: the first rung that applies is taken.

#include <span>

#include "paceline/core/recover/rung.h"

namespace paceline::core {

std::span<const RungEntry> Ladder();

struct LadderAnswer {
  Rung rung = Rung::kNone;
  RungAnswer answer;
};
LadderAnswer ClimbLadder(const LadderView& view);

}  // namespace paceline::core
