#include "paceline/ps/table.h"

#include <algorithm>
#include <cstring>

#include "paceline/base/check.h"
#include "paceline/ps/byte_cursor.h"
#include "paceline/ps/first_values.h"

namespace paceline::ps {
namespace {

constexpr size_t kLine = 64;

void Fetch(const void* begin, size_t bytes) {
  // The processor fetches the following lines of a long row by itself.
  constexpr size_t kLinesMax = 8;
  const auto* at = static_cast<const char*>(begin);
  const size_t end = std::min(bytes, kLinesMax * kLine);
  for (size_t i = 0; i < end; i += kLine) __builtin_prefetch(at + i);
}

}  // namespace

Table::Table(const TableSpec& spec, uint64_t salt)
    : spec_(spec),
      key_(TableKeyOf(spec.name)),
      optimizer_(FindOptimizer(spec.optimizer.name)),
      placement_(salt | 1),
      store_(spec.dim + optimizer_->state_floats(spec.dim)),
      index_pages_(RowIndex::kPageFloats) {}

void Table::SetSpec(const TableSpec& spec) {
  is_closed_ = is_closed_ && spec.budget_bytes == spec_.budget_bytes;
  spec_ = spec;
}

float* Table::Add(uint64_t key, uint64_t hash) {
  const uint32_t row = store_.Add();
  if (row == RowStore::kNone) return nullptr;
  RowIndex& index = IndexOf(hash);
  index_bytes_ += index.GrowthBytes();
  index.Add(PlaceOf(hash), key, row, &index_pages_,
            [this](uint64_t it) { return PlaceOf(RowHash(key_, it)); });
  ++rows_;
  return store_.At(row);
}

float* Table::AddWithin(uint64_t key, uint64_t hash) {
  const uint64_t wanted = bytes() + store_.row_bytes() + IndexOf(hash).GrowthBytes();
  is_closed_ = is_closed_ || (spec_.budget_bytes > 0 && wanted > spec_.budget_bytes);
  float* row = is_closed_ ? nullptr : Add(key, hash);
  if (row == nullptr) {
    ++refused_;
    return nullptr;
  }
  ++admitted_;
  optimizer_->init_state(spec_.optimizer, spec_.dim, row + spec_.dim);
  return row;
}

float* Table::Admit(uint64_t key, uint64_t hash) {
  float* row = AddWithin(key, hash);
  if (row != nullptr) FirstValues(spec_.seed, hash, spec_.scale, spec_.dim, row);
  return row;
}

float* Table::FindRow(uint64_t key, uint64_t hash) {
  const uint32_t row = IndexOf(hash).Find(PlaceOf(hash), key);
  return row == RowIndex::kNone ? nullptr : store_.At(row);
}

void Table::HashGroup(std::span<const uint64_t> keys, Group* group) {
  for (size_t i = 0; i < group->size; ++i) {
    const uint64_t hash = RowHash(key_, keys[group->begin + i]);
    group->found[i].hash = hash;
    __builtin_prefetch(IndexOf(hash).Home(PlaceOf(hash)));
  }
}

void Table::FindGroup(std::span<const uint64_t> keys, size_t bytes, Group* group) {
  for (size_t i = 0; i < group->size; ++i) {
    Found& found = group->found[i];
    found.row = FindRow(keys[group->begin + i], found.hash);
    if (found.row != nullptr) Fetch(found.row, bytes);
  }
}

template <class Work>
void Table::ForGroups(std::span<const uint64_t> keys, size_t bytes, const Work& work) {
  constexpr size_t kStages = 3;
  std::array<Group, kStages> groups;
  const size_t count = (keys.size() + kGroup - 1) / kGroup;
  for (size_t turn = 0; turn < count + kStages - 1; ++turn) {
    if (turn < count) {
      Group* group = &groups[turn % kStages];
      group->begin = turn * kGroup;
      group->size = std::min(kGroup, keys.size() - group->begin);
      HashGroup(keys, group);
    }
    if (turn >= 1 && turn - 1 < count) FindGroup(keys, bytes, &groups[(turn - 1) % kStages]);
    if (turn >= 2) work(&groups[(turn - 2) % kStages]);
  }
}

void Table::Pull(std::span<const uint64_t> keys, bool is_training, std::span<float> rows) {
  float* to = rows.data();
  ForGroups(keys, spec_.dim * sizeof(float), [&](Group* group) {
    for (size_t i = 0; i < group->size; ++i, to += spec_.dim) {
      const uint64_t key = keys[group->begin + i];
      const auto [hash, found] = group->found[i];
      const float* row = found;
      if (row == nullptr && is_training) {
        row = FindRow(key, hash);  // the same key may have come a moment ago
        if (row == nullptr) row = Admit(key, hash);
      }
      if (row != nullptr) {
        std::copy_n(row, spec_.dim, to);
      } else {
        FirstValues(spec_.seed, hash, spec_.scale, spec_.dim, to);
      }
    }
  });
}

uint64_t Table::Init(std::span<const uint64_t> keys, std::span<const float> values) {
  uint64_t added = 0;
  const float* from = values.data();
  for (const uint64_t key : keys) {
    const uint64_t hash = RowHash(key_, key);
    if (FindRow(key, hash) == nullptr) {
      if (float* row = AddWithin(key, hash); row != nullptr) {
        std::copy_n(from, spec_.dim, row);
        ++added;
      }
    }
    from += spec_.dim;
  }
  return added;
}

void Table::Push(std::span<const uint64_t> keys, std::span<const float> values,
                 const PartitionBits* takes) {
  const float* gradients = values.data();
  ForGroups(keys, store_.row_bytes(), [&](Group* group) {
    std::array<float*, kGroup> rows;
    for (size_t i = 0; i < group->size; ++i) {
      const auto [hash, found] = group->found[i];
      const uint64_t key = keys[group->begin + i];
      rows[i] = found;
      if (takes != nullptr && !takes->test(hash >> kPartitionShift)) {
        rows[i] = nullptr;
      } else if (rows[i] == nullptr) {
        rows[i] = FindRow(key, hash);
        if (rows[i] == nullptr) rows[i] = Admit(key, hash);
      }
    }
    optimizer_->step(spec_.optimizer, spec_.dim, std::span(rows).first(group->size), gradients);
    gradients += group->size * spec_.dim;
  });
}

void Table::Visit(uint32_t partition, const RowVisitor& visit) const {
  partitions_[partition].Visit([&](uint64_t key, uint32_t row) {
    visit(key, std::span(store_.At(row), store_.row_floats()));
  });
}

void Table::VisitKeys(std::span<const uint64_t> keys, const RowVisitor& visit) const {
  for (const uint64_t key : keys) {
    const uint64_t hash = RowHash(key_, key);
    const uint32_t row = partitions_[hash >> kPartitionShift].Find(PlaceOf(hash), key);
    if (row != RowIndex::kNone) visit(key, std::span(store_.At(row), spec_.dim));
  }
}

void Table::Drop(uint32_t partition) {
  RowIndex& index = partitions_[partition];
  if (index.size() == 0) return;
  index.Visit([this](uint64_t, uint32_t row) { store_.Free(row); });
  rows_ -= index.size();
  index_bytes_ -= index.bytes();
  index.Clear(&index_pages_);
  is_closed_ = false;
}

void Table::Restore(const TableRows& rows) {
  const char* from = rows.floats.data();
  ByteCursor keys(rows.keys);
  for (uint64_t i = 0; i < rows.rows; ++i) {
    const auto key = keys.Number<uint64_t>();
    float* row = Add(key, RowHash(key_, key));
    CHECK(row != nullptr, "2^32 rows fill the memory before");
    std::memcpy(row, from, store_.row_bytes());
    from += store_.row_bytes();
  }
}

}  // namespace paceline::ps
