#pragma once

// The rows of one table in a holding: an index for each partition, and memory for all rows.
//
// Calls take many keys, because a random row costs several cache misses. The keys are handled in
// groups, and three groups are under way: the index of one is fetched, then its rows, then the work
// is done. So the misses of many keys overlap, and none of them waits.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "paceline/ps/applied.h"
#include "paceline/ps/optimizer/optimizer.h"
#include "paceline/ps/partition_image.h"
#include "paceline/ps/row_hash.h"
#include "paceline/ps/rows/row_index.h"
#include "paceline/ps/rows/row_store.h"
#include "paceline/ps/table_spec.h"

namespace paceline::ps {

class Table {
 public:
  // `salt` chooses places in the index; see Holding.
  Table(const TableSpec& spec, uint64_t salt);

  const TableSpec& spec() const { return spec_; }
  void SetSpec(const TableSpec& spec);  // with the same dim and optimizer

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return rows_ * store_.row_bytes() + index_bytes_; }
  uint64_t admitted() const { return admitted_; }
  uint64_t refused() const { return refused_; }
  bool is_closed() const { return is_closed_; }
  uint32_t row_floats() const { return store_.row_floats(); }

  void Pull(std::span<const uint64_t> keys, bool is_training, std::span<float> rows);
  uint64_t Init(std::span<const uint64_t> keys, std::span<const float> values);

  // Steps the rows of those keys whose partition is in `takes` (null: all).
  void Push(std::span<const uint64_t> keys, std::span<const float> values,
            const PartitionBits* takes);

  // Each row of a partition: its key, and its values with the optimizer's state.
  using RowVisitor = std::function<void(uint64_t key, std::span<const float> row)>;
  void Visit(uint32_t partition, const RowVisitor& visit) const;

  // Each of these keys that has a row: its values, without the optimizer's state.
  void VisitKeys(std::span<const uint64_t> keys, const RowVisitor& visit) const;

  uint32_t RowsOf(uint32_t partition) const { return partitions_[partition].size(); }
  // Removes all rows of a partition.
  void Drop(uint32_t partition);
  // Adds rows with their state, whatever the budget says. Their partition has no rows.
  void Restore(const TableRows& rows);

 private:
  struct Found {
    uint64_t hash = 0;
    float* row = nullptr;
  };
  static constexpr size_t kGroup = 16;

  struct Group {
    size_t begin = 0;
    size_t size = 0;
    std::array<Found, kGroup> found;
  };

  uint64_t PlaceOf(uint64_t hash) const { return hash * placement_; }
  RowIndex& IndexOf(uint64_t hash) { return partitions_[hash >> kPartitionShift]; }
  void HashGroup(std::span<const uint64_t> keys, Group* group);
  void FindGroup(std::span<const uint64_t> keys, size_t bytes, Group* group);
  // Calls work(group) for all keys in order. `bytes` of each row are fetched before.
  template <class Work>
  void ForGroups(std::span<const uint64_t> keys, size_t bytes, const Work& work);

  float* FindRow(uint64_t key, uint64_t hash);
  float* Admit(uint64_t key, uint64_t hash);      // with first values
  float* AddWithin(uint64_t key, uint64_t hash);  // null: the budget is reached; without values
  float* Add(uint64_t key, uint64_t hash);

  TableSpec spec_;
  const TableKey key_;
  const Optimizer* const optimizer_;
  const uint64_t placement_;  // odd and secret: multiply-shift hashing
  RowStore store_;
  RowStore index_pages_;
  std::array<RowIndex, kPartitions> partitions_;
  uint64_t rows_ = 0;
  uint64_t index_bytes_ = 0;
  uint64_t admitted_ = 0;
  uint64_t refused_ = 0;
  bool is_closed_ = false;
};

}  // namespace paceline::ps
