#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace paceline::ckpt {

struct FreeBytes {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeBytes>;

// At least `size` bytes, in whole multiples of `alignment`.
inline AlignedBytes MakeAligned(size_t size, size_t alignment) {
  const size_t whole = (size + alignment) / alignment * alignment;
  return AlignedBytes(static_cast<std::byte*>(std::aligned_alloc(alignment, whole)));
}

}  // namespace paceline::ckpt
