#pragma once

// Two tensors of one type and shape, element by element.

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

// Bits are compared: 0.0 and -0.0 differ, a NaN is equal to the same NaN. Nothing: all are equal.
// Both spans have as many bytes as the shape asks for.
std::optional<ElementDiff> DiffElements(ckpt::DType dtype, const std::vector<uint64_t>& shape,
                                        std::span<const std::byte> one,
                                        std::span<const std::byte> other);

// "0.5", "-3", "true"; types of eight bits and fewer than an integer's meaning as "0x7f".
std::string ElementText(ckpt::DType dtype, std::span<const std::byte> element);

}  // namespace paceline::cli
