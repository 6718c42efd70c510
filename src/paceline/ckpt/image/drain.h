#pragma once

// From a slot to a disk: the image as it stands in memory becomes a file, written past the page
// cache, by the kernel straight out of the slot.
//
// Ways, the first that works here: io_uring with O_DIRECT; pwrite with O_DIRECT (a kernel or a
// container without io_uring); pwrite through the page cache (a file system without O_DIRECT). The
// report says which it was.

#include <cstdint>
#include <span>
#include <string>

#include "paceline/base/result.h"
#include "paceline/ckpt/disk/disk.h"
#include "paceline/ckpt/disk/pacer.h"
#include "paceline/ckpt/image/restore.h"

namespace paceline::ckpt {

struct DrainOptions {
  // Compare each chunk with its hash before it is written: what the memory lost is found here and
  // not in a year.
  bool verify = true;
  uint32_t depth = 8;  // chunks on their way at once, with io_uring, out of memory
  bool may_use_uring = true;
  bool may_bypass_cache = true;
  Pacer* pacer = nullptr;  // null: as fast as the disk is
  Disk* disk = SystemDisk();
};

struct DrainReport {
  std::string way;  // "io_uring, O_DIRECT", "pwrite, O_DIRECT" or "pwrite"
};

// Makes the file `path`, which must not exist, with the image's bytes, durable when this returns.
// The caller syncs the directory. On an error nothing is left at `path`.
// kFull: the disk is full. kDamaged: a chunk is not what was saved. kExists. kNotFound: no folder.
// kSystem: an input or output error; the data is still in the slot, and another file may do.
Result<DrainReport> Drain(ChunkSource* image, std::span<const uint64_t> hashes,
                          const std::string& path, const DrainOptions& options);

}  // namespace paceline::ckpt
