#pragma once

// Why does this world stand still, and who is the cause?
//
// A rank is named as a culprit only by a fact of its own: it is stopped, it made another call than
// its peers, or it is absent where others wait. When no rank stands out, the resource is named and
// nothing is done. Pure: equal facts give an equal verdict.

#include <span>

#include "paceline/diagnose/facts.h"
#include "paceline/diagnose/scene.h"

namespace paceline::diagnose {

Verdict Judge(const Facts& facts);

std::span<const Rule> Rules();

}  // namespace paceline::diagnose
