#pragma once

// Do the boxes that the ranks saved make up whole tensors?

#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"

namespace paceline::ckpt {

// Every element of every tensor is in exactly one box, up to boxes that are saved more than once
// (of a replica whose bytes differ). kInvalid names the first tensor of which that is not true.
// The size of a tensor is what its boxes reach: a missing last box is not seen.
// The answer: names, in order, of the tensors of which a box was saved more than once with other
// bytes, as far as TensorBox::content tells.
Result<std::vector<std::string>> CheckTiling(std::vector<TensorBox> boxes);

}  // namespace paceline::ckpt
