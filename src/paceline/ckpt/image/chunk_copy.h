#pragma once

// Copies bytes into a slot and hashes them on the way. Each byte is read once, hashed in registers,
// and written past the caches, which keep the training's data.
//
// The hash is XXH3-64 with seed 0 (Yann Collet, xxHash 0.8; bit-identical with XXH3_64bits) of each
// chunk of kChunkBytes of the image; the last chunk may be shorter. It detects faults, not an
// adversary. A chunk may consist of many pieces of any size and alignment, because tensors end
// anywhere.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/ckpt/chunk_size.h"

namespace paceline::ckpt {

// XXH3_64bits, by the kernel below.
uint64_t HashOf(const void* data, size_t size);

// For copies out of an image: the bytes `begin` to `begin + size` of a chunk go to `target`.
struct CopyOut {
  size_t begin = 0;
  size_t size = 0;
  void* target = nullptr;
};
// Copies the pieces, which are ordered by `begin`, and returns the hash of the whole chunk of at
// most kChunkBytes. Reads the chunk once: the copy takes what the hash brought into the cache.
uint64_t CopyFromChunk(const std::byte* chunk, size_t size, std::span<const CopyOut> pieces);

class ChunkCopier {
 public:
  // Fills `image` with `size` bytes in all. The address must be a multiple of 64.
  ChunkCopier(std::byte* image, size_t size);

  // The next `size` bytes of the image. `source` may be anywhere outside it.
  void Append(const void* source, size_t size);

  size_t appended() const { return at_; }

  // Called after all `size` bytes. Makes the image visible before later stores of this thread, and
  // returns the hash of each chunk, in order.
  const std::vector<uint64_t>& Finish();

  // The kernel for this processor: "avx2" or "portable".
  static const char* Kernel();

 private:
  void BeginChunk();
  void EndChunk();

  std::byte* const image_;
  const size_t size_;
  size_t at_ = 0;           // bytes appended so far
  size_t chunk_begin_ = 0;  // of the current chunk, in the image
  size_t chunk_size_ = 0;
  size_t stripes_end_ = 0;   // offset in the chunk up to which stripes are mixed in
  size_t stripe_ = 0;        // of the current block
  std::byte hold_[64] = {};  // the beginning of a stripe, at_ % 64 bytes
  uint64_t acc_[8] = {};
  std::vector<uint64_t> hashes_;
};

}  // namespace paceline::ckpt
