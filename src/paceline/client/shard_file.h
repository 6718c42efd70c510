#pragma once

// Writes a rank's part of a checkpoint directly to storage, without arena and agent: for imports of
// other formats, and for frameworks that save by themselves. Synchronous; durable on return.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"

namespace paceline::client {

struct StoredPlace {
  std::string directory;
  std::string job_id;
  uint64_t generation = 0;
  int64_t step = 0;
};

// step-STEP-gGENERATION, the usual name.
std::string FolderNameOf(const StoredPlace& place);

// `sources[i]` has the bytes of layout.boxes[i]. Builds the whole image in memory first. kExists:
// the checkpoint is already complete. kFull, kSystem.
Result<void> WriteStoredShard(const StoredPlace& place, uint32_t rank, const ckpt::Image& layout,
                              std::span<const void* const> sources, std::string_view notes);

// Called after all ranks have written. Checks that their boxes tile whole tensors, and makes the
// checkpoint visible. kInvalid: they do not. kNotFound: a rank has not written.
Result<void> CommitStored(const StoredPlace& place, uint32_t world_size);

// The folder of a checkpoint: `path` itself, or the newest checkpoint in it. kNotFound, kInvalid,
// kDamaged.
Result<std::string> FindStored(const std::string& path);

// kTooLarge: readers would refuse these notes.
Result<void> CheckNotesSize(std::string_view notes);

}  // namespace paceline::client
