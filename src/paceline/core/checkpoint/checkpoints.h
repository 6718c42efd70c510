#pragma once

// Connects the job to its checkpoint ledger: passes reports, records facts, sends orders.

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

void OnCheckpointReported(Turn& turn, const CheckpointReported& event);

// Records the ledger's decisions. True: a fact was recorded.
bool NoteCheckpoints(Turn& turn);

// Sends each connected node its order if that has changed.
void TellCheckpoints(Turn& turn);

// The job must not end yet: its newest step is being written to storage.
bool AwaitsStorage(Turn& turn);

// Whether the nodes that are here have all images of that step in memory.
bool HasWhole(Turn& turn, SavedStep saved);

}  // namespace paceline::core
