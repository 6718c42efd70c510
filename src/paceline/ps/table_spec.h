#pragma once

// What a table is, and in which partition a key lies.
//
// A job has 4,096 partitions. The partition of a row follows from the table's name and the key
// alone, for ever: a server, a file and a later job find it without asking.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/strong_id.h"

namespace paceline::ps {

inline constexpr uint32_t kPartitions = 4096;

inline constexpr uint32_t kDimMax = 65'536;
inline constexpr size_t kTableNameBytesMax = 256;

struct OptimizerSpec {
  std::string name = "adagrad";  // of ps/optimizer/optimizers.cc
  double rate = 0.01;
  double epsilon = 1e-10;  // Adagrad, Adam
  double beta1 = 0.9;      // Adam
  double beta2 = 0.999;    // Adam
  double initial = 0;      // Adagrad: the first sum of squares
  bool operator==(const OptimizerSpec&) const = default;
};

struct TableSpec {
  std::string name;
  uint32_t dim = 0;  // floats of a row
  OptimizerSpec optimizer = {};
  uint64_t seed = 0;          // of the first values
  float scale = 0.05f;        // first values are uniform in [-scale, scale)
  uint64_t budget_bytes = 0;  // 0: none
  bool operator==(const TableSpec&) const = default;
};

// The spec as text: in frames and in snapshots.
std::string EncodeSpec(const TableSpec& spec);
// None if the text is malformed or a value is out of bounds.
std::optional<TableSpec> ParseSpec(std::string_view text);

// The rule that the spec violates, as a sentence; empty if there is none.
std::string BrokenRule(const TableSpec& spec);

// Hash of a table's name: the same in every process, unlike the table's number in a holding.
using TableKey = StrongId<struct TableKeyTag, uint64_t>;
TableKey TableKeyOf(std::string_view name);

// Less than kPartitions.
uint32_t PartitionOf(TableKey table, uint64_t key);

}  // namespace paceline::ps
