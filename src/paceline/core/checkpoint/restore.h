#pragma once

// The pure heart of the restore ladder: which step a world goes on from, and where each of its
// ranks finds it: in its host's memory, in another host's, or in storage.

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

// What the hosts of a job have in memory, as far as it was heard.
struct Memories {
  using ImageId = std::pair<Rank, SavedStep>;
  std::map<NodeId, CheckpointReport> reports;
  // Nobody could give these; they are used where they lie, and not fetched again.
  std::set<ImageId> unreachable;
  // Hashes of the files of all ranks of a step, from when all of them were there: they say whose
  // file equals a lost one.
  std::map<SavedStep, std::map<Rank, uint64_t>> roots;
};

// From where the ranks of each node take a step.
struct RestorePlan {
  std::map<NodeId, std::vector<RestoreOrder::Source>> sources;
  std::map<NodeId, std::vector<FetchOrder>> fetches;  // before that
  // Nodes that share the reading of storage, each with those that it shares with.
  std::map<NodeId, std::vector<StorageReader>> readers;
  bool operator==(const RestorePlan&) const = default;
};

// That node is reached there from now on. True: some order changes by that.
bool Readdress(const std::string& node, const std::string& address,
               std::map<NodeId, std::vector<FetchOrder>>* orders);
bool Readdress(const std::string& node, const std::string& address, RestorePlan* plan);

// What a rank saved in that step, on the host that reports, and no copy where there is a choice;
// null when it is not there.
const MemoryImage* Find(const CheckpointReport& report, Rank rank, SavedStep saved);

// Some rank found that checkpoint damaged.
bool IsDamaged(const CheckpointBook& book, const std::string& name);

// The newest step that every rank of `world` can have from memory, else the newest committed one in
// storage, else nothing. Every node of the world has reported under it.
RestoreDecided DecideRestore(const World& world, const CheckpointBook& book,
                             const std::string& job_id, const Memories& memories);

// Is that the newest step, although some nodes cannot see storage? One that sees it is enough, as
// all have the same. So is a job that has restored before: what is there was known then, and what
// it has committed since stands in its journal. Storage itself is waited for.
bool IsSure(const RestoreDecided& decided, const World& world, const Memories& memories,
            bool has_restored);

// Can every rank of `world` have `saved` from the memory of its own host or of another? The plan,
// or nothing. When several nodes lack the same image, each fetches it from the one before.
std::optional<RestorePlan> PlanFromMemory(const World& world, const Memories& memories,
                                          SavedStep saved);

// For a step that was decided and that the world cannot have any more, because who had it is gone:
// whoever still waits is told to have the image of a rank that there is not, from nobody. He hears
// that it cannot be had, and the next world decides anew.
RestorePlan PlanForNobody(const World& world, const Memories& memories,
                          const RestoreDecided& decided);

// For a step in storage. Where ranks of several hosts take the same file, one host reads it and
// hands it on. Where they cut what they need from files of others, in a world of another size or
// layout, each host reads a share of the chunks for all: up to kReadersMax hosts together, so that
// of N hosts ceil(N / kReadersMax) read each chunk. Empty when every rank does best to read by
// itself: on one host the page cache is what they share.
inline constexpr size_t kReadersMax = 64;
RestorePlan PlanFromStorage(const World& world, const Memories& memories, const std::string& name);

}  // namespace paceline::core
