#pragma once

// Judges why a world stands still, and which rank is the cause.
//
// A rank is named as a culprit only by its own facts: it is stopped, it made another call than its
// peers, or it is absent where others wait. If no rank stands out, the resource is named and no
// rank is restarted. Pure: equal facts give an equal verdict.

#include <span>

#include "paceline/diagnose/facts.h"
#include "paceline/diagnose/scene.h"

namespace paceline::diagnose {

Verdict Judge(const Facts& facts);

std::span<const Rule> Rules();

}  // namespace paceline::diagnose
