#pragma once

// Handles a world with a quiet rank: asks its nodes what their ranks are doing and judges the
// answers (diagnose/judge.h). A rank is restarted only if its own evidence shows that it is the
// cause; everything else is only reported.

#include "paceline/base/instant.h"
#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// How long nodes may take to answer. Nodes that do not are judged by the others' answers.
inline constexpr Duration kEvidenceWait = Duration::Seconds(8);
// Older answers are not used: the master was stopped itself meanwhile.
inline constexpr Duration kEvidenceStale = Duration::Seconds(10);
// The least time between two questions.
inline constexpr Duration kLookAgainMin = Duration::Milliseconds(500);

void OnEvidence(Turn& turn, const EvidenceCollected& event);

// Asks the nodes for evidence, or judges their answers, when either is due. True: a record was
// emitted.
bool NoteHang(Turn& turn);

// When to call NoteHang again without an event.
Instant HangDeadline(const Watch& watch);

}  // namespace paceline::core
