#pragma once

// The pure part of a restore: which step a world restores, and each rank's source: its host's
// memory, another host's memory, or storage.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/checkpoint/book.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/world.h"

namespace paceline::core {

// What the hosts of a job have in memory, as reported.
struct Memories {
  using ImageId = std::pair<Rank, SavedStep>;
  std::map<NodeId, CheckpointReport> reports;
  // Images that no peer could send. They are read in place if their host needs them, and never
  // fetched again.
  std::set<ImageId> unreachable;
  // Hashes of all ranks' files of a step, taken when all of them existed. They tell which file
  // equals a lost one.
  std::map<SavedStep, std::map<Rank, uint64_t>> roots;
};

// Each node's sources for its ranks in a restore.
struct RestorePlan {
  std::map<NodeId, std::vector<RestoreOrder::Source>> sources;
  std::map<NodeId, std::vector<FetchOrder>> fetches;  // fetched before the restore
  // The nodes that share the reading of storage, each with its group.
  std::map<NodeId, std::vector<StorageReader>> readers;
  bool operator==(const RestorePlan&) const = default;
};

// The node has a new address. True: an order changed.
bool Readdress(const std::string& node, const std::string& address,
               std::map<NodeId, std::vector<FetchOrder>>* orders);
bool Readdress(const std::string& node, const std::string& address, RestorePlan* plan);

// The rank's image of that step on the reporting host, if possible not a copy; null if there is
// none.
const MemoryImage* Find(const CheckpointReport& report, Rank rank, SavedStep saved);

// True if a rank found that checkpoint damaged.
bool IsDamaged(const CheckpointBook& book, const std::string& name);

// The newest checkpoint in storage that a node has reported and no rank found damaged.
std::optional<StoredCheckpoint> NewestStored(const CheckpointBook& book, const Memories& memories);

// The newest step that every rank of `world` can get from memory, else the newest committed one in
// storage, else nothing. All nodes must have reported for this world.
RestoreDecided DecideRestore(const World& world, const CheckpointBook& book,
                             const std::string& job_id, const Memories& memories);

// Returns true if `decided` is the newest step even though some nodes cannot see storage. One node
// that sees it is enough, because all have the same storage. It is also enough if the job has
// restored before: it knew the content then, and its commits since are in the journal. A decision
// for storage itself always waits.
bool IsSure(const RestoreDecided& decided, const World& world, const Memories& memories,
            bool has_restored);

// A plan with which every rank of `world` gets `saved` from the memory of its own or another host;
// none if there is no such plan. If several nodes lack the same image, each fetches it from the one
// before.
std::optional<RestorePlan> PlanFromMemory(const World& world, const Memories& memories,
                                          SavedStep saved);

// For a decided step that can no longer be restored, because its holders are gone. Sends each
// waiting rank an order without a source: its restore fails, and the next world decides again.
RestorePlan PlanForNobody(const World& world, const Memories& memories,
                          const RestoreDecided& decided);

// For a step in storage. If ranks of several hosts need the same file, one host reads it and sends
// it on. If ranks need parts of other ranks' files, in a world of another size or layout, each host
// reads a share of the chunks for all. At most kReadersMax hosts form a group, so of N hosts ceil(N
// / kReadersMax) read each chunk. Empty if each rank should read by itself: ranks of one host share
// the page cache.
inline constexpr size_t kReadersMax = 64;
RestorePlan PlanFromStorage(const World& world, const Memories& memories, const std::string& name);

}  // namespace paceline::core
