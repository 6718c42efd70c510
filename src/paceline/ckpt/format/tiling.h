#pragma once

// Do the boxes that the ranks saved make up whole tensors?

#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"

namespace paceline::ckpt {

// Every element of every tensor is in exactly one box, up to boxes that are saved more than once
// (of a replica whose bytes differ). kInvalid names the first tensor of which that is not true.
// The size of a tensor is what its boxes reach: a missing last box is not seen.
Result<void> CheckTiling(std::vector<TensorBox> boxes);

}  // namespace paceline::ckpt
