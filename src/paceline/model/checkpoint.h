#pragma once

// Messages about checkpoints between agents and the master. Both directions are complete states: a
// report says what exists, an order says what must exist. Either may be repeated at any time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"
#include "paceline/model/saved_step.h"

namespace paceline {

// How often a step goes to storage. Every saved step is in memory in any case.
struct PersistPolicy {
  enum class Kind {
    kAuto,   // an interval from the cost of a checkpoint and the failure rate
    kSteps,  // every `steps` steps
    kTime,   // every `time`
  };
  Kind kind = Kind::kAuto;
  int64_t steps = 0;
  Duration time;
  bool operator==(const PersistPolicy&) const = default;
};

inline constexpr uint32_t kReplicasMax = 8;
// CheckpointTerms::keep of a writer that removes no checkpoint, complete or unfinished.
inline constexpr uint32_t kKeepAll = 1'000'000;

// The arguments of the script's Checkpointer, equal on every rank.
struct CheckpointTerms {
  std::string directory;  // absolute; all hosts see it
  uint32_t keep = 3;      // number of the newest that stay; kKeepAll: all
  PersistPolicy policy;
  // Copies of each image in the memory of other hosts. None: one if there is another host.
  std::optional<uint32_t> replicas;
  bool operator==(const CheckpointTerms&) const = default;
};

// A complete image in a host's memory.
struct MemoryImage {
  Rank rank;             // that saved it, in a world of world_size ranks
  std::string place;     // name of the node in whose arena it is
  bool is_copy = false;  // fetched by that node, not saved there
  SavedStep saved;
  uint32_t world_size = 0;
  uint64_t file_bytes = 0;
  uint64_t file_root = 0;   // equal roots: equal files
  uint64_t root = 0;        // of the file with its notes
  bool is_replica = false;  // the script says that all ranks hold the same tensors
  bool operator==(const MemoryImage&) const = default;
};

// Ranks `first` to `first + count - 1`.
struct RankRun {
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const RankRun&) const = default;
};

// Ranks whose files of one step are equal, because they hold the same tensors (data parallel). A
// host with one of these files has all of them, including those of a lost host.
struct EqualFiles {
  SavedStep saved;
  uint64_t file_root = 0;
  std::vector<RankRun> ranks;
  bool operator==(const EqualFiles&) const = default;
};

// The state of a shard that was ordered to storage.
struct ShardState {
  Rank rank;
  SavedStep saved;
  bool is_durable = false;
  std::string problem;  // why it failed; empty: in progress, or done
  Duration took;
  bool operator==(const ShardState&) const = default;
};

// A checkpoint in storage with a readable manifest.
struct StoredCheckpoint {
  std::string name;  // of its folder in the directory
  std::string job_id;
  SavedStep saved;
  uint32_t world_size = 0;
  // By rank: the rank whose file has its tensors. Empty: each rank has its own file.
  std::vector<uint32_t> file_of;
  bool operator==(const StoredCheckpoint&) const = default;
};

struct CommitState {
  std::string name;
  bool is_done = false;
  std::string problem;
  uint64_t bytes = 0;
  // Ranks have different parameters under one name, so only the same number of ranks can restore.
  bool has_own_parameters = false;
  bool operator==(const CommitState&) const = default;
};

// A fetch that failed after all sources of its order were tried.
struct FetchFailure {
  Rank rank;
  SavedStep saved;
  std::string problem;
  bool operator==(const FetchFailure&) const = default;
};

struct CheckpointReport {
  // The world whose ranks run here. No rank of an older world lives, so older images are final.
  Generation generation;
  std::optional<CheckpointTerms> terms;    // none: no rank has made a Checkpointer yet
  std::vector<MemoryImage> images;         // on this host, including those of its other nodes
  std::vector<ShardState> shards;          // of the newest order
  std::optional<CommitState> commit;       // of the newest order
  std::optional<StoredCheckpoint> stored;  // newest one in the directory, as this node sees it
  std::optional<SavedStep> flush;          // a rank waits until this save is in storage
  bool is_closing = false;                 // … and has nothing else to do, so it waits for long
  std::vector<uint32_t> finished;          // ranks that close or have closed: they save no more
  std::vector<std::string> damaged;        // checkpoints that a rank here found damaged
  std::string place;                       // name of the node
  std::string address;                     // HOST:PORT for fetching images; empty: not possible
  std::string domain;                // failure domain: equal for hosts that may be lost together
  std::vector<FetchFailure> failed;  // of the newest order
  std::vector<EqualFiles> equal;     // as in an order, for images that are here
  // The node could not see the directory for a while, so `stored` is empty.
  bool is_blind = false;
  // The node knows that the job stops, and has no living rank that could save.
  bool is_final = false;
  bool operator==(const CheckpointReport&) const = default;
};

// The sources of one node's ranks in a restore.
struct RestoreOrder {
  enum class From { kNothing, kMemory, kStorage };
  struct Image {
    Rank rank;  // that saved it
    std::string place;
    bool is_copy = false;
    bool operator==(const Image&) const = default;
  };
  struct Source {
    Rank rank;                  // that restores
    std::vector<Image> images;  // its own, a replica's, or all of them for another layout
    bool operator==(const Source&) const = default;
  };
  Generation generation;  // of the restoring world
  From from = From::kNothing;
  SavedStep saved;
  uint32_t world_size = 0;  // of the saving world
  std::string name;         // of the checkpoint in storage
  // In memory, for this node's ranks. With kStorage: images that another rank has read of the same
  // file, so only the notes must be read.
  std::vector<Source> sources;
  std::string reason;
  bool operator==(const RestoreOrder&) const = default;
};

// Write these images to the folder `name` of the directory.
struct PersistOrder {
  struct Shard {
    Rank rank;
    Rank file_of;  // the rank whose file has its tensors: itself, or one with an equal file
    bool operator==(const Shard&) const = default;
  };
  SavedStep saved;
  uint32_t world_size = 0;
  std::string name;
  std::vector<Shard> shards;  // of this node; in a commit, of all nodes
  bool operator==(const PersistOrder&) const = default;
};

// Fetch a copy of this image. The sources are tried in order.
struct FetchOrder {
  struct Source {
    std::string node;     // the source; empty: storage
    std::string address;  // of that node
    std::string place;    // of the arena on that node
    bool is_copy = false;
    bool operator==(const Source&) const = default;
  };
  Rank rank;  // that saved it
  SavedStep saved;
  uint64_t root = 0;  // of the image; 0 from storage
  std::string name;   // of the checkpoint in storage; empty: none
  std::vector<Source> sources;
  bool is_urgent = false;  // ranks wait for it
  bool operator==(const FetchOrder&) const = default;
};

// The part of a checkpoint that a host needs from storage.
enum class StoredPart {
  kAll,
  kNotes,     // its ranks' notes; the tensors are here
  kManifest,  // the manifest; the rest is read by chunks
};

// A node that also reads chunks of storage for others.
struct StorageReader {
  std::string node;
  std::string address;
  bool operator==(const StorageReader&) const = default;
};

struct CheckpointOrder {
  std::optional<CheckpointTerms> terms;
  std::optional<RestoreOrder> restore;
  std::optional<SavedStep> hold;  // the first save from this one on stays in memory
  std::optional<PersistOrder> persist;
  std::optional<PersistOrder> commit;  // all shards are durable: publish it
  std::optional<SavedStep> durable;    // newest committed step of this job
  std::vector<std::string> damaged;    // never to be restored again
  std::string problem;                 // why the last due step is not in storage; empty: it is
  std::optional<SavedStep> given_up;   // storage was tried long enough for this and older steps
  bool is_ending = false;              // the job stops; stay until is_over
  bool is_over = false;           // the job ends, and no transfer of its checkpoints is in progress
  std::vector<FetchOrder> fetch;  // all copies that this node must have
  bool drop_others = false;       // other copies may be dropped
  // The nodes that share the reading of storage for `restore`, including this one. Empty: each rank
  // reads by itself. All of them get the same list in the same order.
  std::vector<StorageReader> readers;
  uint32_t replicas = 0;                // of each image, on other hosts
  std::optional<SavedStep> replicated;  // newest step whose images all have `replicas`
  std::optional<SavedStep> copying;     // the step that is being copied
  // Which files of `replicated` equal one on this node. A master may be lost together with the host
  // of such a file, so each node remembers them.
  std::vector<EqualFiles> equal;
  std::string replica_problem;  // why there are no copies; empty: there are, or will be
  bool operator==(const CheckpointOrder&) const = default;
};

}  // namespace paceline
