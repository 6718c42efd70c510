#pragma once

// The durable decisions of a job about its checkpoints: facts, and their fold. All other state is
// in the hosts' memories and in storage, and nodes report it again.

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
  // The number of ranks that a world needs to continue from this checkpoint; 0: any number. It is
  // fixed if parameters of one name differ between the ranks (pipeline stages).
  uint32_t ranks_fixed = 0;
  bool operator==(const CheckpointCommitted&) const = default;
};
struct CheckpointDamaged {  // never restored from again
  std::string name;
  NodeId node;  // that found it damaged
  std::string node_name;
  bool operator==(const CheckpointDamaged&) const = default;
};
struct CheckpointNotStored {  // storage refuses it: at the first try, and when it is given up
  SavedStep saved;
  std::string directory;
  std::string reason;
  Generation generation;  // of the world that has it in memory
  bool is_final = false;  // the job ends without it
  bool operator==(const CheckpointNotStored&) const = default;
};
using CheckpointFact =
    std::variant<RestoreDecided, CheckpointCommitted, CheckpointDamaged, CheckpointNotStored>;

// The durable half: fold of the facts.
struct CheckpointBook {
  RestoreDecided restore;  // the newest; generation 0: none yet
  std::optional<CheckpointCommitted> committed;
  Instant committed_at;  // meaningful with `committed`
  Instant begun_at;      // when the job's first restore was decided; 0: not yet
  // The number of ranks that the last commit needs; 0: any. It stays if that checkpoint is found
  // damaged, because older checkpoints and the images in memory need the same number.
  uint32_t ranks_fixed = 0;
  std::vector<std::string> damaged;
  std::optional<CheckpointNotStored> not_stored;  // none: storage has accepted all saves since
  uint32_t memory_restores = 0;                   // worlds that restored from memory
  uint32_t storage_restores = 0;                  // worlds that restored from storage
  uint32_t commits = 0;
  bool operator==(const CheckpointBook&) const = default;
};
inline constexpr size_t kDamagedMax = 64;
// `at`: when the fact became true, by the ledger's clock.
void Apply(const CheckpointFact& fact, Instant at, CheckpointBook* book);

// True if an older world saved it after the step from which a newer world continued: an abandoned
// branch.
bool IsGivenUp(const CheckpointBook& book, SavedStep saved);

// True if storage has a checkpoint that was saved after a moment at which `step` was the newest one
// anywhere and `commits` checkpoints were in storage; none: unknown. The number of a step says
// nothing where a script counts each epoch anew. Then the second commit counts, because the first
// may be of a checkpoint that was saved before.
bool IsStoredSince(const CheckpointBook& book, int64_t step, std::optional<uint32_t> commits);

// True if storage was tried for long enough, and the job ends without this step.
bool IsEndedWithout(const CheckpointBook& book, SavedStep saved);

}  // namespace paceline::core
