#pragma once

// Parts of boxes: copies a part of one n-dimensional array into another array. Resharding consists
// of such copies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::ckpt {

// The part of a box that begins at `from`, with `extent` elements in each dimension, goes to `to`
// in an array of `shape`. Both are in C order, and all fields have one number a dimension.
struct Region {
  std::vector<uint64_t> from;
  std::vector<uint64_t> extent;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> to;
};

// A range of bytes that is contiguous on both sides.
struct ByteRun {
  uint64_t from = 0;  // in the box
  uint64_t to = 0;    // in the target
  uint64_t bytes = 0;
};

// kInvalid: the part is not inside the box (of `box_shape`), or not inside the target.
Result<void> CheckRegion(const Region& region, const std::vector<uint64_t>& box_shape);

// Calls `visit` for each run, ordered by `from`, until it fails. Runs have maximal length: one run
// if the part is all of both arrays. `element` is in bytes.
Result<void> ForEachRun(const Region& region, const std::vector<uint64_t>& box_shape,
                        size_t element, const std::function<Result<void>(const ByteRun&)>& visit);

}  // namespace paceline::ckpt
