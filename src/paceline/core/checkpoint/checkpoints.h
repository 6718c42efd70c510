#pragma once

// The job's side of its checkpoints: feeds the ledger, records its facts, tells its orders.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

void OnCheckpointReported(Turn& turn, const CheckpointReported& event);

// Records what the ledger decides. True: something was recorded.
bool NoteCheckpoints(Turn& turn);

// Tells every connected node whose order differs from what it was told.
void TellCheckpoints(Turn& turn);

// The job shall not end yet: its newest step is on its way to storage.
bool AwaitsStorage(Turn& turn);

}  // namespace paceline::core
