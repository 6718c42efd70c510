#pragma once

// The rows of one table in a holding, by partition.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "paceline/ps/optimizer/optimizer.h"
#include "paceline/ps/table_spec.h"

namespace paceline::ps {

class Table {
 public:
  explicit Table(const TableSpec& spec);

  const TableSpec& spec() const { return spec_; }
  void SetSpec(const TableSpec& spec) { spec_ = spec; }  // with the same dim and optimizer

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t admitted() const { return admitted_; }
  uint64_t refused() const { return refused_; }
  bool IsClosed() const { return spec_.budget_bytes > 0 && bytes_ >= spec_.budget_bytes; }

  void Pull(std::span<const uint64_t> keys, bool is_training, std::span<float> rows);
  uint64_t Init(std::span<const uint64_t> keys, std::span<const float> values);

  // Steps the rows of those keys whose partition `takes` (null: all).
  using Takes = std::function<bool(uint32_t partition)>;
  void Push(std::span<const uint64_t> keys, std::span<const float> values, const Takes& takes);

  using RowVisitor = std::function<void(uint64_t key, std::span<const float> values)>;
  void Visit(uint32_t partition, const RowVisitor& visit) const;

 private:
  std::vector<float>* FindOrAdmit(uint64_t key);
  std::vector<float>* Add(uint64_t key);  // without values

  TableSpec spec_;
  const TableKey key_;
  const Optimizer* const optimizer_;
  const uint32_t row_floats_;
  std::array<std::map<uint64_t, std::vector<float>>, kPartitions> partitions_;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  uint64_t admitted_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace paceline::ps
