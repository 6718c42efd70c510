#pragma once

// Parts of boxes: where the bytes of a part of one n-dimensional array lie, and where they go in
// another. Resharding is nothing else.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::ckpt {

// The part of a box that begins at `from` and has `extent` elements in each dimension goes to `to`
// of an array with `shape`. Both are in C order. All have one number a dimension.
struct Region {
  std::vector<uint64_t> from;
  std::vector<uint64_t> extent;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> to;
};

// Bytes that are next to each other on both sides.
struct ByteRun {
  uint64_t from = 0;  // in the box
  uint64_t to = 0;    // in the target
  uint64_t bytes = 0;
};

// kInvalid: the part does not lie in the box (of `box_shape`), or not in the target.
Result<void> CheckRegion(const Region& region, const std::vector<uint64_t>& box_shape);

// Calls `visit` for each run, in order of `from`, as long as it says that all is well. The runs are
// as long as they can be: one, when the part is all of both. `element` is in bytes.
Result<void> ForEachRun(const Region& region, const std::vector<uint64_t>& box_shape,
                        size_t element, const std::function<Result<void>(const ByteRun&)>& visit);

}  // namespace paceline::ckpt
