#pragma once

// Checks that the boxes saved by the ranks tile whole tensors.

#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"

namespace paceline::ckpt {

// How to treat an unsharded tensor that ranks save under one name in different shapes.
enum class OtherShapes {
  kRefused,  // the tensor has no one shape
  kOwn,      // each rank has a tensor of its own, as stages of a pipeline may
};

// Checks that every element of every tensor is in exactly one box; equal boxes (replicas) count
// once. kInvalid names the first tensor that fails. A tensor's size is the extent of its boxes, so
// a missing last box is not noticed. Returns the sorted names of tensors with replicas whose bytes
// differ, as far as TensorBox::content is known, and of those that are kOwn.
Result<std::vector<std::string>> CheckTiling(std::vector<TensorBox> boxes, OtherShapes others);

}  // namespace paceline::ckpt
