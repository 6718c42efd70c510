#pragma once

// The chunks of an image: each has a hash of its own.

#include <cstddef>

namespace paceline::ckpt {

inline constexpr size_t kChunkBytes = size_t{4} << 20;

// The last one may be shorter.
constexpr size_t ChunkCount(size_t bytes) {
  return bytes / kChunkBytes + (bytes % kChunkBytes != 0);
}

}  // namespace paceline::ckpt
