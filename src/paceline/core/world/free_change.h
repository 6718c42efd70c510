#pragma once

// When the world may change without a step being done twice: a node joins, leaves, or the job goes
// to another size. Docs: docs/guides/growth.md.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/checkpoint/ledger.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// How often to check whether ranks have continued; a new step alone does not trigger a check.
inline constexpr Duration kLookAtSteps = Duration::Milliseconds(100);

// The newest step of what the script reports, of what is in memory and of what is in storage; -1:
// there is none.
int64_t NewestCheckpoint(Turn& turn);

struct WorldChange {
  World next;
  CheckpointLedger::Move move;
  std::string_view wanted_by;  // "the notice"
  Instant wanted_at;
  int64_t saved_step = -1;          // newest checkpoint of the job then; -1: none
  std::optional<uint32_t> commits;  // how many were in storage then, as far as known
};

// Why the change costs no step now; "": it would cost some. The caller asks again after
// kLookAtSteps.
std::string WhyFree(Turn& turn, const WorldChange& change);

// Every step is in memory, and `next` can restore it: the change costs a restart but no step.
bool IsAllInMemory(Turn& turn, const World& next, const CheckpointLedger::Move& move);

// True if no rank that reports checkpoints in this world is in the middle of one newer than
// `saved_before`.
bool HaveAllSaved(Turn& turn, int64_t saved_before);

// Returns true if the script wrote a checkpoint by itself after `since`, its ranks have trained on
// since, and an earlier attempt has resumed from such a file. Since the ranks have trained on, the
// file is complete under its final name.
bool HasWrittenFile(Turn& turn, Instant since);

}  // namespace paceline::core
