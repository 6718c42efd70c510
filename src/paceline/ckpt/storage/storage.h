#pragma once

// Writes, publishes and removes checkpoints in a store (ckpt/store/store.h). ckpt/storage/listing.h
// finds them.
//
//   LATEST                          name of the newest checkpoint, one line
//   step-1200-g3/MANIFEST.json      written last: without it there is no checkpoint
//               /shard-00000.safetensors, rank-00000.json, …
//
// Data is durable before it becomes visible, and no file is changed in place. Only files with names
// that these functions make are ever removed.

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

// One rank's part of a step, in memory or on a local disk.
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
  uint32_t file_of = 0;  // the rank whose file has its tensors; written if it is this rank
};

// An image of two files becomes two files. The frozen one is linked to the newest checkpoint's if
// all hashes are equal. Durable on return. May be repeated after a failure and replaces an earlier
// attempt's files. kFull, kSystem, kDamaged (the image lost a byte). kExists: the checkpoint is
// already complete.
Result<void> WriteShard(Store* store, const ShardPlace& place, const ShardImage& image,
                        Pacer* pacer);

struct CommitPlace {
  PersistOrder order;  // including the shards of all ranks
  std::string job_id;
};
// Combines the parts, checks that the boxes of every tensor tile it, writes the manifest and
// LATEST. Returns the manifest; also if the step is already committed. kFenced: the store has a
// newer step of this job, so this order is outdated.
Result<Manifest> Commit(Store* store, const CommitPlace& place);

// Removes the parts of a committed checkpoint and the leftovers of dead writers. Failures are
// ignored, because the files are removed with the folder later.
void RemoveParts(Store* store, const PersistOrder& committed);

// Removes all but the newest `keep` checkpoints, and older unfinished ones. Never removes the one
// in LATEST. What cannot be removed is tried again next time; the failure says why.
Result<void> Prune(Store* store, uint32_t keep);

// Removes a checkpoint, also the newest; LATEST then names the next one. kNotFound.
Result<void> Remove(Store* store, const std::string& name);

std::string FileNameOf(uint32_t rank);    // shard-00003.safetensors
std::string FrozenNameOf(uint32_t rank);  // shard-00003-frozen.safetensors
std::string NotesNameOf(uint32_t rank);   // rank-00003.json
std::string PartNameOf(uint32_t rank);    // rank-00003.part.json

}  // namespace paceline::ckpt
