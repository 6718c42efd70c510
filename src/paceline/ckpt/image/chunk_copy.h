#pragma once

// Copies bytes into a slot and hashes them on the way: each byte is read once, its hash is computed
// in registers, and it is written past the caches, which stay the training's.
//
// The hash is XXH3-64 with seed 0 (Yann Collet, xxHash 0.8; bit-identical with XXH3_64bits) of each
// chunk of kChunkBytes of the image, the last one shorter. It is good against faults, not against
// an adversary. A chunk may be put together from many pieces, of any size and alignment: tensors
// end where they end.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::ckpt {

inline constexpr size_t kChunkBytes = size_t{4} << 20;

// The last one may be shorter.
constexpr size_t ChunkCount(size_t bytes) {
  return bytes / kChunkBytes + (bytes % kChunkBytes != 0);
}

// XXH3_64bits of anything, by the kernel below.
uint64_t HashOf(const void* data, size_t size);

// The way back. Bytes `begin` to `begin + size` of a chunk go to `target`.
struct CopyOut {
  size_t begin = 0;
  size_t size = 0;
  void* target = nullptr;
};
// Copies them, in order of `begin`, and gives the hash of the whole chunk, of at most kChunkBytes.
// It reads the chunk once: what the hash brought into the nearest cache is copied from there, past
// the caches.
uint64_t CopyFromChunk(const std::byte* chunk, size_t size, std::span<const CopyOut> pieces);

class ChunkCopier {
 public:
  // Shall fill `image`, whose address is a multiple of 64, with `size` bytes in all.
  ChunkCopier(std::byte* image, size_t size);

  // The next `size` bytes of the image. `source` may be anywhere outside it.
  void Append(const void* source, size_t size);

  size_t appended() const { return at_; }

  // After all `size` bytes: makes the image's stores visible before whatever this thread stores
  // next, and gives the hash of each chunk in order.
  const std::vector<uint64_t>& Finish();

  // What this processor runs: "avx2" or "portable".
  static const char* Kernel();

 private:
  void BeginChunk();
  void EndChunk();

  std::byte* const image_;
  const size_t size_;
  size_t at_ = 0;           // appended
  size_t chunk_begin_ = 0;  // of the present chunk, in the image
  size_t chunk_size_ = 0;
  size_t stripes_end_ = 0;   // in the chunk: up to here its bytes are mixed in by stripes
  size_t stripe_ = 0;        // of the present block
  std::byte hold_[64] = {};  // the beginning of a stripe, at_ % 64 bytes
  uint64_t acc_[8] = {};
  std::vector<uint64_t> hashes_;
};

}  // namespace paceline::ckpt
