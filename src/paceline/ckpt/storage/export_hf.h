#pragma once

// Exports a checkpoint as a Hugging Face folder: whole tensors in model.safetensors, or, if that
// would be too large, in model-0000i-of-0000n.safetensors with an index in
// model.safetensors.index.json. `transformers` and `safetensors` read it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/storage/whole.h"

namespace paceline::ckpt {

struct HfExport {
  std::string folder;  // must not exist, or be empty
  // Tensors ENTRY.NAME are exported as NAME.
  std::string entry = "model";
  uint64_t file_bytes_max = uint64_t{5'000'000'000};  // of tensors; a larger one is alone
};

struct HfExported {
  size_t tensors = 0;
  size_t left_out = 0;  // tensors of other entries
  uint64_t bytes = 0;
  std::vector<std::string> files;
};

// By the name that a tensor gets in the export, its name in the checkpoint: `names` without the
// parts that torch's wrappers add, as older versions and imports have saved them. Names that would
// be equal then stay as they are.
std::map<std::string, std::string> ExportedNames(const std::vector<std::string>& names);

// Durable on return; the index is written last. kExists: the folder is not empty. kNotFound: the
// checkpoint has no such entry; the message names its entries. kDamaged, kFull, kSystem.
Result<HfExported> ExportHf(WholeReader* from, const HfExport& how);

}  // namespace paceline::ckpt
