#pragma once

// Checkpoints in a store (ckpt/store/store.h): how they are written, made visible and removed. How
// they are found is ckpt/storage/listing.h.
//
//   LATEST                          name of the newest checkpoint, one line
//   step-1200-g3/MANIFEST.json      last of all: without it there is no checkpoint
//               /shard-00000.safetensors, rank-00000.json, …
//
// Everything becomes visible after its bytes are durable; nothing is ever written in place. Nothing
// but what this file made, by its name, is ever removed.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/disk/pacer.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/listing.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/checkpoint.h"

namespace paceline::ckpt {

// What one rank has of a step, in memory or on a local disk.
struct ShardImage {
  ChunkSource* file = nullptr;
  std::vector<uint64_t> file_hashes;
  ChunkSource* notes = nullptr;
  std::vector<uint64_t> notes_hashes;
};

struct ShardPlace {
  std::string name;  // of the checkpoint
  std::string job_id;
  SavedStep saved;
  uint32_t rank = 0;
  uint32_t file_of = 0;  // its tensors are in that rank's file, which is written when it is its own
};

// An image of two files becomes two, and the frozen one is linked to that of the newest checkpoint
// when every chunk of it has the same hash there. Durable when this returns. Again after a failure:
// whatever an earlier attempt left is replaced.
// kFull, kSystem, kDamaged (the image lost a byte). kExists: the checkpoint is complete.
Result<void> WriteShard(Store* store, const ShardPlace& place, const ShardImage& image,
                        Pacer* pacer);

struct CommitPlace {
  PersistOrder order;  // with the shards of all ranks
  std::string job_id;
};
// Puts the parts together, checks that the boxes of every tensor tile it, writes the manifest and
// LATEST. The answer is the manifest. Again after a success: the same answer. kFenced: the store
// has a newer step of this job as its newest, so whoever ordered this is of the past.
Result<Manifest> Commit(Store* store, const CommitPlace& place);

// The parts of a committed checkpoint and what killed writers left, which nobody reads any more.
// They go with its folder at the latest, so a failure is none.
void RemoveParts(Store* store, const PersistOrder& committed);

// Removes all but the newest `keep` checkpoints and what older, unfinished ones left. Never what
// LATEST names. What could not be removed stays for the next time, and the failure says why.
Result<void> Prune(Store* store, uint32_t keep);

// kNotFound. The newest one is removed like any other: LATEST then names the next.
Result<void> Remove(Store* store, const std::string& name);

std::string FileNameOf(uint32_t rank);    // shard-00003.safetensors
std::string FrozenNameOf(uint32_t rank);  // shard-00003-frozen.safetensors
std::string NotesNameOf(uint32_t rank);   // rank-00003.json
std::string PartNameOf(uint32_t rank);    // rank-00003.part.json

}  // namespace paceline::ckpt
