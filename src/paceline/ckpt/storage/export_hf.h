#pragma once

// A Hugging Face folder out of a checkpoint: whole tensors in model.safetensors, or, when that
// would be too large, in model-0000i-of-0000n.safetensors and a model.safetensors.index.json, which
// says what is where. `transformers` and `safetensors` read it.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/storage/whole.h"

namespace paceline::ckpt {

struct HfExport {
  std::string folder;  // must not be there yet, or be empty
  // Tensors ENTRY.NAME go, as NAME.
  std::string entry = "model";
  uint64_t file_bytes_max = uint64_t{5'000'000'000};  // of tensors; a larger one is alone
};

struct HfExported {
  size_t tensors = 0;
  size_t left_out = 0;  // of other entries
  uint64_t bytes = 0;
  std::vector<std::string> files;
};

// Durable when this returns; the index comes last. kExists: something is in the folder. kNotFound:
// the checkpoint has no such entry; the message names those that it has. kDamaged, kFull, kSystem.
Result<HfExported> ExportHf(WholeReader* from, const HfExport& how);

}  // namespace paceline::ckpt
