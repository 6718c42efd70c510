#pragma once

// Writes an image from a slot in memory to a file on disk, past the page cache, directly from the
// slot.
//
// Takes the first way that works: io_uring with O_DIRECT; pwrite with O_DIRECT (no io_uring);
// pwrite through the page cache (the file system has no O_DIRECT). The report names the way.

#include <cstdint>
#include <span>
#include <string>

#include "paceline/base/result.h"
#include "paceline/ckpt/disk/disk.h"
#include "paceline/ckpt/disk/pacer.h"
#include "paceline/ckpt/image/restore.h"

namespace paceline::ckpt {

struct DrainOptions {
  // Compare each chunk with its hash before it is written, so that memory errors are found now.
  bool verify = true;
  uint32_t depth = 8;  // chunks in flight with io_uring, from memory
  bool may_use_uring = true;
  bool may_bypass_cache = true;
  Pacer* pacer = nullptr;  // null: no limit
  Disk* disk = SystemDisk();
};

struct DrainReport {
  std::string way;  // "io_uring, O_DIRECT", "pwrite, O_DIRECT" or "pwrite"
};

// Makes the file `path`, which must not exist, with the image's bytes. It is durable on return; the
// caller syncs the directory. On an error `path` does not exist. kFull: the disk is full. kDamaged:
// a chunk differs from what was saved. kExists. kNotFound: there is no folder. kSystem: an I/O
// error; the image in the slot is intact, so another file may work.
Result<DrainReport> Drain(ChunkSource* image, std::span<const uint64_t> hashes,
                          const std::string& path, const DrainOptions& options);

}  // namespace paceline::ckpt
