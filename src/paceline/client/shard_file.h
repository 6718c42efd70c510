#pragma once

// A rank's part of a checkpoint written straight to storage, without an arena and an agent: for
// importing other formats, and for frameworks that save by themselves. Synchronous, and durable
// when it returns.

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

// step-STEP-gGENERATION, as everywhere.
std::string FolderNameOf(const StoredPlace& place);

// `sources[i]` holds the bytes of layout.boxes[i]. The whole image is put together in memory first.
// kExists: that checkpoint is complete. kFull, kSystem.
Result<void> WriteStoredShard(const StoredPlace& place, uint32_t rank, const ckpt::Image& layout,
                              std::span<const void* const> sources, std::string_view notes);

// After all ranks have written: checks that their boxes make up whole tensors, and makes the
// checkpoint visible. kInvalid: they do not. kNotFound: a rank has not written.
Result<void> CommitStored(const StoredPlace& place, uint32_t world_size);

// The folder of a checkpoint: `path` itself, or the newest one in it. kNotFound, kInvalid,
// kDamaged.
Result<std::string> FindStored(const std::string& path);

// kTooLarge: notes that no reader takes.
Result<void> CheckNotesSize(std::string_view notes);

}  // namespace paceline::client
