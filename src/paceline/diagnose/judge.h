#pragma once

// Judges why a world stands still, and which rank is the cause.
//
// A rank is named as a culprit only by its own facts: it is stopped, it made another call than its
// peers, or it is absent where others wait. If no rank stands out, the resource is named and no
// rank is restarted. Pure: equal facts give an equal verdict.

#include <optional>
#include <string>
#include <vector>

#include "paceline/diagnose/facts.h"
#include "paceline/diagnose/scene.h"

namespace paceline::diagnose {

Verdict Judge(const Facts& facts);

// A call by which ranks of one group differ.
struct OtherCall {
  std::string sentence;  // "rank 1 made another call than ranks 0 and 2: barrier at …, not …"
  std::string fingerprint;
};
// Compares the newest collective of a rank that failed with the same one of the other ranks. None
// if they agree, or have not come to it. Libraries end a rank for such a mistake of its script,
// because it gets more bytes than it expects.
std::optional<OtherCall> FindOtherCall(const std::vector<RankEvidence>& ranks, Rank failed);

}  // namespace paceline::diagnose
