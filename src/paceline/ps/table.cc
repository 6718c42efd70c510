#include "paceline/ps/table.h"

#include <algorithm>

#include "paceline/ps/first_values.h"
#include "paceline/ps/row_hash.h"

namespace paceline::ps {

Table::Table(const TableSpec& spec)
    : spec_(spec),
      key_(TableKeyOf(spec.name)),
      optimizer_(FindOptimizer(spec.optimizer.name)),
      row_floats_(spec.dim + optimizer_->state_floats(spec.dim)) {}

std::vector<float>* Table::Add(uint64_t key) {
  if (IsClosed()) {
    ++refused_;
    return nullptr;
  }
  std::vector<float>& row = partitions_[PartitionOf(key_, key)][key];
  row.resize(row_floats_);
  optimizer_->init_state(spec_.optimizer, spec_.dim, row.data() + spec_.dim);
  ++rows_;
  ++admitted_;
  bytes_ += row_floats_ * sizeof(float) + sizeof(key);
  return &row;
}

std::vector<float>* Table::FindOrAdmit(uint64_t key) {
  auto& partition = partitions_[PartitionOf(key_, key)];
  const auto found = partition.find(key);
  if (found != partition.end()) return &found->second;
  std::vector<float>* row = Add(key);
  if (row != nullptr) {
    FirstValues(spec_.seed, RowHash(key_, key), spec_.scale, spec_.dim, row->data());
  }
  return row;
}

void Table::Pull(std::span<const uint64_t> keys, bool is_training, std::span<float> rows) {
  float* to = rows.data();
  for (const uint64_t key : keys) {
    const auto& partition = partitions_[PartitionOf(key_, key)];
    const auto found = partition.find(key);
    const std::vector<float>* row = found != partition.end() ? &found->second : nullptr;
    if (row == nullptr && is_training) row = FindOrAdmit(key);
    if (row != nullptr) {
      std::copy_n(row->data(), spec_.dim, to);
    } else {
      FirstValues(spec_.seed, RowHash(key_, key), spec_.scale, spec_.dim, to);
    }
    to += spec_.dim;
  }
}

uint64_t Table::Init(std::span<const uint64_t> keys, std::span<const float> values) {
  uint64_t added = 0;
  const float* from = values.data();
  for (const uint64_t key : keys) {
    if (!partitions_[PartitionOf(key_, key)].contains(key)) {
      if (std::vector<float>* row = Add(key); row != nullptr) {
        std::copy_n(from, spec_.dim, row->data());
        ++added;
      }
    }
    from += spec_.dim;
  }
  return added;
}

void Table::Push(std::span<const uint64_t> keys, std::span<const float> values,
                 const Takes& takes) {
  const float* gradient = values.data();
  for (const uint64_t key : keys) {
    if (!takes || takes(PartitionOf(key_, key))) {
      if (std::vector<float>* row = FindOrAdmit(key); row != nullptr) {
        optimizer_->step(spec_.optimizer, spec_.dim, row->data(), gradient);
      }
    }
    gradient += spec_.dim;
  }
}

void Table::Visit(uint32_t partition, const RowVisitor& visit) const {
  for (const auto& [key, row] : partitions_[partition]) {
    visit(key, std::span(row).first(spec_.dim));
  }
}

}  // namespace paceline::ps
