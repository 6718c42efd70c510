#pragma once

// A directory of checkpoints on a file system that all hosts see.
//
//   DIRECTORY/LATEST                          name of the newest checkpoint, one line
//   DIRECTORY/step-1200-g3/MANIFEST.json      last of all: without it there is no checkpoint
//                         /shard-00000.safetensors, rank-00000.json, …
//
// Everything becomes visible by a rename after its bytes are durable; nothing is ever written in
// place. Nothing but what this file made, by its name, is ever removed.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/manifest.h"
#include "paceline/model/checkpoint.h"

namespace paceline::ckpt {

// What one rank has of a step, in memory.
struct ShardBytes {
  std::span<const std::byte> file;
  std::vector<uint64_t> file_hashes;
  std::span<const std::byte> notes;
  std::vector<uint64_t> notes_hashes;
};

struct ShardPlace {
  std::string directory;
  std::string name;  // of the checkpoint
  std::string job_id;
  SavedStep saved;
  uint32_t rank = 0;
  uint32_t file_of = 0;  // its tensors are in that rank's file, which is written when it is its own
};

// Durable when this returns. Again after a failure: whatever an earlier attempt left is replaced.
// kFull, kSystem, kDamaged (the memory lost a byte). kExists: the checkpoint is complete.
Result<void> WriteShard(const ShardPlace& place, const ShardBytes& bytes);

struct CommitPlace {
  std::string directory;
  PersistOrder order;  // with the shards of all ranks
  std::string job_id;
};
// Puts the parts together, checks that the boxes of every tensor tile it, writes the manifest and
// LATEST. The bytes of the checkpoint. Again after a success: the same answer.
Result<uint64_t> Commit(const CommitPlace& place);

// Removes all but the newest `keep` checkpoints and what older, unfinished ones left. Never what
// LATEST names. What could not be removed stays for the next time.
void Prune(const std::string& directory, uint32_t keep);

// kInvalid, kDamaged, kNotFound.
Result<Manifest> ReadManifest(const std::string& folder);

struct Listed {
  std::string name;
  Manifest manifest;
};
// Every checkpoint with a whole manifest, the newest first: what LATEST names, then by step.
std::vector<Listed> List(const std::string& directory);
// The first of them that is not one of `except`.
std::optional<StoredCheckpoint> Newest(const std::string& directory,
                                       const std::set<std::string>& except = {});

// One sentence for each thing that is wrong; empty: every byte is what was saved.
std::vector<std::string> VerifyCheckpoint(const std::string& folder);

// kNotFound. The newest one is removed like any other: LATEST then names the next.
Result<void> Remove(const std::string& directory, const std::string& name);

std::string FileNameOf(uint32_t rank);   // shard-00003.safetensors
std::string NotesNameOf(uint32_t rank);  // rank-00003.json

}  // namespace paceline::ckpt
