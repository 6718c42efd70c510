#pragma once

// Compares two tensors of the same type and shape, element by element.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/ckpt/format/safetensors.h"

namespace paceline::cli {

struct ElementDiff {
  uint64_t differing = 0;
  uint64_t elements = 0;
  std::vector<uint64_t> first;  // its indices; none for a scalar
  std::string one;              // its value, on each side
  std::string other;
};

// Returns nothing if all elements are equal. Bits are compared: 0.0 and -0.0 differ, and a NaN
// equals the same NaN. Both spans must have the bytes of the shape.
std::optional<ElementDiff> DiffElements(ckpt::DType dtype, const std::vector<uint64_t>& shape,
                                        std::span<const std::byte> one,
                                        std::span<const std::byte> other);

// "0.5", "-3", "true"; 8-bit floating-point types as "0x7f".
std::string ElementText(ckpt::DType dtype, std::span<const std::byte> element);

}  // namespace paceline::cli
