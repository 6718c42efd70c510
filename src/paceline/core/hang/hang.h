#pragma once

// A world in which a rank is quiet: its nodes are asked what their ranks do, and the answers are
// judged (diagnose/judge.h). A rank is restarted only when it is named by a fact of its own; all
// else is told.

#include "paceline/base/instant.h"
#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// How long nodes may take to answer. Who has not by then is judged by what the others say.
inline constexpr Duration kEvidenceWait = Duration::Seconds(8);
// Answers to a question that is older say nothing of now: the master was stopped itself meanwhile.
inline constexpr Duration kEvidenceStale = Duration::Seconds(10);
// The least time between two questions.
inline constexpr Duration kLookAgainMin = Duration::Milliseconds(500);

void OnEvidence(Turn& turn, const EvidenceCollected& event);

// Asks the nodes for evidence, or judges their answers, when either is due. True: a record was
// written.
bool NoteHang(Turn& turn);

// When NoteHang has to be asked again without news.
Instant HangDeadline(const Watch& watch);

}  // namespace paceline::core
