#pragma once

// A table of a directory of snapshots, as one file that other programs read.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline::server {

struct TableFile {
  uint64_t rows = 0;
  uint32_t dim = 0;
  std::vector<std::string> notes;  // of damaged and missing snapshots
};

// Writes the keys and values of a table, without the optimizer's state, to `path`: a safetensors
// file with the tensors "keys" (int64) and "rows" (float32, a row of dim each). Needs memory for
// all tables of the directory. NOT_FOUND: there is no such table; the message names those that are
// there. UNAVAILABLE: a file cannot be read or written.
absl::StatusOr<TableFile> WriteTableFile(const std::string& directory, const std::string& table,
                                         const std::string& path);

}  // namespace paceline::server
