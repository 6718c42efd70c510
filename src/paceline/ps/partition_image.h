#pragma once

// One partition as bytes: the rows of all tables with their optimizers' state, and what the
// partition has applied. For snapshots, and for moves. docs/formats/table_snapshot.md specifies it.
//
// A partition has one image: equal content gives equal bytes. The input is not trusted. Sizes are
// checked against the bytes that are there before anything is allocated.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ps/applied.h"
#include "paceline/ps/table_spec.h"

namespace paceline::ps {

// The rows of one table, as they lie in an image.
struct TableRows {
  TableSpec spec;
  uint32_t row_floats = 0;  // dim and state
  uint64_t rows = 0;
  std::string_view keys = {};    // rows × 8 bytes, rising
  std::string_view floats = {};  // rows × row_floats × 4 bytes
};

struct PartitionImage {
  uint32_t partition = 0;
  AppliedSet applied = {};
  std::vector<TableRows> tables = {};  // by name, without empty ones
};

std::string WriteImage(const PartitionImage& image);

// Its tables view `bytes`. kDamaged: which rule of the format the bytes violate.
Result<PartitionImage> ReadImage(std::string_view bytes);

// XXH3-64.
uint64_t HashOfBytes(std::string_view bytes);

}  // namespace paceline::ps
