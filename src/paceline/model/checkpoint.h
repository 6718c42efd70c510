#pragma once

// What agents and the master tell each other of checkpoints. Both directions are whole truths: a
// report says what is, an order says what shall be, and either may be sent again at any time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"
#include "paceline/model/saved_step.h"

namespace paceline {

// How often a step goes to storage. Every saved step is in memory, whatever this says.
struct PersistPolicy {
  enum class Kind {
    kAuto,   // an interval from what persisting costs and how often the job fails
    kSteps,  // every `steps` steps
    kTime,   // every `time`
  };
  Kind kind = Kind::kAuto;
  int64_t steps = 0;
  Duration time;
  bool operator==(const PersistPolicy&) const = default;
};

inline constexpr uint32_t kReplicasMax = 8;
// CheckpointTerms::keep of a writer that removes nothing: no whole checkpoint and no unfinished
// one.
inline constexpr uint32_t kKeepAll = 1'000'000;

// What the script asked of its Checkpointer; the same on every rank.
struct CheckpointTerms {
  std::string directory;  // absolute, and every host sees it
  uint32_t keep = 3;      // so many of the newest stay; kKeepAll: nothing is removed
  PersistPolicy policy;
  // Copies of each image in the memory of other hosts; none: one where there is another host.
  std::optional<uint32_t> replicas;
  bool operator==(const CheckpointTerms&) const = default;
};

// A whole image in a host's memory.
struct MemoryImage {
  Rank rank;             // that saved it, in a world of world_size
  std::string place;     // name of the node in whose arena it is
  bool is_copy = false;  // fetched by that node, and not saved there
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

// The ranks whose files of one step are equal, because they hold the same tensors (data parallel).
// Whoever has one of these files has them all, also those of a host that is lost.
struct EqualFiles {
  SavedStep saved;
  uint64_t file_root = 0;
  std::vector<RankRun> ranks;
  bool operator==(const EqualFiles&) const = default;
};

// How far a shard is that was ordered to storage.
struct ShardState {
  Rank rank;
  SavedStep saved;
  bool is_durable = false;
  std::string problem;  // why not; empty: on its way, or done
  Duration took;
  bool operator==(const ShardState&) const = default;
};

// A checkpoint in storage with a whole manifest.
struct StoredCheckpoint {
  std::string name;  // of its folder in the directory
  std::string job_id;
  SavedStep saved;
  uint32_t world_size = 0;
  // By rank, whose file holds its tensors; empty: each rank's its own.
  std::vector<uint32_t> file_of;
  bool operator==(const StoredCheckpoint&) const = default;
};

struct CommitState {
  std::string name;
  bool is_done = false;
  std::string problem;
  uint64_t bytes = 0;
  // Parameters under one name differ between the ranks, so no other number of ranks can go on.
  bool has_own_parameters = false;
  bool operator==(const CommitState&) const = default;
};

// A fetch that did not succeed, after everything that its order names was tried.
struct FetchFailure {
  Rank rank;
  SavedStep saved;
  std::string problem;
  bool operator==(const FetchFailure&) const = default;
};

struct CheckpointReport {
  // Of the world whose ranks are here; nobody of an older one lives, so what older ones saved is
  // final.
  Generation generation;
  std::optional<CheckpointTerms> terms;    // none: no rank has made a Checkpointer yet
  std::vector<MemoryImage> images;         // on this host, also those of other nodes of it
  std::vector<ShardState> shards;          // of the newest order
  std::optional<CommitState> commit;       // of the newest order
  std::optional<StoredCheckpoint> stored;  // the newest this node sees in the directory
  std::optional<SavedStep> flush;          // a rank waits until this save is in storage
  bool is_closing = false;                 // … and has nothing else to do: it waits with patience
  std::vector<uint32_t> finished;          // ranks that close, or have closed: they save no more
  std::vector<std::string> damaged;        // checkpoints that a rank here found damaged
  std::string place;                       // name of the node
  std::string address;                     // HOST:PORT for fetching images; empty: not from here
  std::string domain;                      // whoever has the same may be lost together with it
  std::vector<FetchFailure> failed;        // of the newest order
  std::vector<EqualFiles> equal;           // as an order told it, of images that are here
  // It could not see the directory for a while: `stored` is nothing because of that.
  bool is_blind = false;
  // It knows that the job stops, and no rank lives here any more that could save.
  bool is_final = false;
  bool operator==(const CheckpointReport&) const = default;
};

// From where the ranks of one node take their state.
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
    std::vector<Image> images;  // its own, a replica's, or all of them to be cut anew
    bool operator==(const Source&) const = default;
  };
  Generation generation;  // of the world that restores
  From from = From::kNothing;
  SavedStep saved;
  uint32_t world_size = 0;  // of the world that saved
  std::string name;         // of the checkpoint in storage
  // In memory, for this node's ranks. With kStorage: what another rank has read of the same file,
  // so that only the notes have to be read again.
  std::vector<Source> sources;
  std::string reason;
  bool operator==(const RestoreOrder&) const = default;
};

// Write these images into the folder `name` of the directory.
struct PersistOrder {
  struct Shard {
    Rank rank;
    Rank file_of;  // whose file holds its tensors: its own, or an equal one that is written anyway
    bool operator==(const Shard&) const = default;
  };
  SavedStep saved;
  uint32_t world_size = 0;
  std::string name;
  std::vector<Shard> shards;  // of this node; in a commit, of all
  bool operator==(const PersistOrder&) const = default;
};

// Have a copy of this image. Its sources are tried in turn.
struct FetchOrder {
  struct Source {
    std::string node;     // who gives it; empty: it is read from storage
    std::string address;  // of that node
    std::string place;    // in whose arena it is there
    bool is_copy = false;
    bool operator==(const Source&) const = default;
  };
  Rank rank;  // that saved it
  SavedStep saved;
  uint64_t root = 0;  // of the image; 0 when it comes from storage
  std::string name;   // of the checkpoint in storage that has it; empty: none
  std::vector<Source> sources;
  bool is_urgent = false;  // ranks wait for it
  bool operator==(const FetchOrder&) const = default;
};

// How much of a checkpoint a host needs of storage.
enum class StoredPart {
  kAll,
  kNotes,     // the small state of its ranks: their tensors are here
  kManifest,  // what is in it: the rest is read by chunks
};

// A node that reads chunks of storage for others, too.
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
  std::optional<PersistOrder> commit;  // all shards are durable: make it visible
  std::optional<SavedStep> durable;    // newest committed of this job
  std::vector<std::string> damaged;    // never to be taken again
  std::string problem;  // why the last step that was due is not in storage; empty: it is
  std::optional<SavedStep> given_up;  // storage was tried long enough for this and older ones
  bool is_ending = false;             // the job stops; stay until is_over
  bool is_over = false;  // the job ends, and nothing of its checkpoints is on the way any more
  std::vector<FetchOrder> fetch;  // all copies that this node shall have
  bool drop_others = false;       // copies that are not among them may go
  // Who shares what has to be read of storage for `restore`, this node among them; none: each rank
  // reads by itself. All of them are told the same ones in the same order.
  std::vector<StorageReader> readers;
  uint32_t replicas = 0;                // of each image, on other hosts
  std::optional<SavedStep> replicated;  // newest of which each image has so many
  std::optional<SavedStep> copying;     // of which they are being made
  // Of `replicated`: which files equal one that this node has. A master may be lost together with
  // the host of such a file, so each node remembers it.
  std::vector<EqualFiles> equal;
  std::string replica_problem;  // why there are none; empty: there are, or will be
  bool operator==(const CheckpointOrder&) const = default;
};

}  // namespace paceline
