#pragma once

// What a job has decided about its checkpoints, for ever: facts, and their fold. Everything else
// about checkpoints stands in the hosts' memories and in storage, and is heard again.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"

namespace paceline::core {

struct RestoreDecided {
  Generation generation;  // of the world that restores
  RestoreOrder::From from = RestoreOrder::From::kNothing;
  SavedStep saved;
  uint32_t world_size = 0;
  std::string name;
  std::string reason;
  bool operator==(const RestoreDecided&) const = default;
};
struct CheckpointCommitted {
  std::string name;
  std::string directory;
  SavedStep saved;
  uint64_t bytes = 0;
  // Parameters under one name differ between its ranks (stages of a pipeline): only a world of so
  // many ranks can go on from it. 0: any world can.
  uint32_t ranks_fixed = 0;
  bool operator==(const CheckpointCommitted&) const = default;
};
struct CheckpointDamaged {  // never restored from again
  std::string name;
  NodeId node;  // where it was found damaged
  std::string node_name;
  bool operator==(const CheckpointDamaged&) const = default;
};
struct CheckpointNotStored {  // storage refuses it: told at the first try, and when it is given up
  SavedStep saved;
  std::string directory;
  std::string reason;
  Generation generation;  // of the world that has it in memory
  bool is_final = false;  // nobody tries any more: the job ends without it
  bool operator==(const CheckpointNotStored&) const = default;
};
using CheckpointFact =
    std::variant<RestoreDecided, CheckpointCommitted, CheckpointDamaged, CheckpointNotStored>;

// The durable half: fold of the facts.
struct CheckpointBook {
  RestoreDecided restore;  // the newest; generation 0: none yet
  std::optional<CheckpointCommitted> committed;
  Instant committed_at;  // meaningful with `committed`
  Instant begun_at;      // when the job's first world was told what to restore; 0: it was not
  // Of the last commit, also when that one was found damaged: what the ranks hold, and the older
  // checkpoints that are left, are parts of as many.
  uint32_t ranks_fixed = 0;
  std::vector<std::string> damaged;
  std::optional<CheckpointNotStored> not_stored;  // none: storage took what was saved since
  uint32_t memory_restores = 0;                   // worlds that went on from memory
  uint32_t storage_restores = 0;                  // and from storage
  uint32_t commits = 0;
  bool operator==(const CheckpointBook&) const = default;
};
inline constexpr size_t kDamagedMax = 64;
// `at`: when the fact became true, on the clock of its ledger.
void Apply(const CheckpointFact& fact, Instant at, CheckpointBook* book);

// An older world saved it beyond the point where a newer one went on: a dead branch.
bool IsGivenUp(const CheckpointBook& book, SavedStep saved);

// Storage was tried for long enough, and the job ends without this step.
bool IsEndedWithout(const CheckpointBook& book, SavedStep saved);

}  // namespace paceline::core
