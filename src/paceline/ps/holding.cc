#include "paceline/ps/holding.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/ps/byte_cursor.h"
#include "paceline/ps/optimizer/kernel.h"
#include "paceline/ps/partition_image.h"
#include "paceline/ps/table.h"

namespace paceline::ps {
namespace {

// What `wanted` would change in a table that has rows; empty if nothing.
std::string Difference(const TableSpec& is, const TableSpec& wanted) {
  const auto differs = [&](const std::string& what, const std::string& one,
                           const std::string& other) {
    return "table " + is.name + " is open with " + what + " " + one + ", and not " + other;
  };
  if (is.dim != wanted.dim) {
    return differs("dim", std::to_string(is.dim), std::to_string(wanted.dim));
  }
  if (is.optimizer.name != wanted.optimizer.name) {
    return differs("the optimizer", is.optimizer.name, wanted.optimizer.name);
  }
  if (is.seed != wanted.seed) {
    return differs("seed", std::to_string(is.seed), std::to_string(wanted.seed));
  }
  if (is.scale != wanted.scale) {
    return differs("scale", std::to_string(is.scale), std::to_string(wanted.scale));
  }
  return "";
}

// The rows of a partition by key, as bytes.
struct SortedRows {
  SortedRows(const Table& table, uint32_t partition) {
    std::vector<std::pair<uint64_t, const float*>> rows;
    rows.reserve(table.RowsOf(partition));
    table.Visit(partition, [&](uint64_t key, std::span<const float> row) {
      rows.emplace_back(key, row.data());
    });
    std::sort(rows.begin(), rows.end());
    const size_t row_bytes = table.row_floats() * sizeof(float);
    floats.reserve(rows.size() * row_bytes);
    for (const auto& [key, row] : rows) {
      AppendNumber(key, &keys);
      floats.append(reinterpret_cast<const char*>(row), row_bytes);
    }
  }

  std::string keys;
  std::string floats;
};

}  // namespace

Holding::Holding(uint64_t salt) : salt_(salt) {}
Holding::~Holding() = default;

Result<uint32_t> Holding::Open(const TableSpec& spec) {
  const std::string broken = BrokenRule(spec);
  if (!broken.empty()) return Failure{FailureKind::kInvalid, broken};
  const uint32_t number = NumberOf(spec.name);
  if (number < tables()) {
    const std::string difference = Difference(Spec(number), spec);
    if (!difference.empty()) return Failure{FailureKind::kExists, difference};
    tables_[number]->SetSpec(spec);
    return number;
  }
  tables_.push_back(std::make_unique<Table>(spec, salt_));
  changed_.emplace_back();
  return tables() - 1;
}

uint32_t Holding::NumberOf(std::string_view name) const {
  uint32_t number = 0;
  while (number < tables() && Spec(number).name != name) ++number;
  return number;
}

uint32_t Holding::tables() const { return static_cast<uint32_t>(tables_.size()); }

const TableSpec& Holding::Spec(uint32_t table) const { return tables_[table]->spec(); }

void Holding::Pull(uint32_t table, std::span<const uint64_t> keys, bool is_training,
                   std::span<float> rows) {
  CHECK(rows.size() == keys.size() * Spec(table).dim, "a row for each key");
  tables_[table]->Pull(keys, is_training, rows);
}

uint64_t Holding::Init(uint32_t table, std::span<const uint64_t> keys,
                       std::span<const float> values) {
  CHECK(values.size() == keys.size() * Spec(table).dim, "a row for each key");
  const uint64_t added = tables_[table]->Init(keys, values);
  if (added > 0) changed_[table].Note(keys);
  return added;
}

std::string WhyNotFinite(const TableSpec& spec, const TableGradient& gradient) {
  if (AreFinite(gradient.values)) return "";
  const auto bad = std::find_if_not(gradient.values.begin(), gradient.values.end(),
                                    [](float value) { return std::isfinite(value); });
  const auto at = static_cast<size_t>(bad - gradient.values.begin());
  return "the gradient of table " + spec.name + ", key " +
         std::to_string(static_cast<int64_t>(gradient.keys[at / spec.dim])) + ", is " +
         std::to_string(*bad);
}

PushAnswer Holding::Judge(const PushTag& tag, std::span<const TableGradient> gradients,
                          std::string* why) const {
  if (tag.recovery < recovery_) {
    *why = "the push is from before recovery " + std::to_string(recovery_);
    return PushAnswer::kFenced;
  }
  for (const TableGradient& gradient : gradients) {
    if (gradient.table >= tables()) {
      *why = "table " + std::to_string(gradient.table) + " is not open";
      return PushAnswer::kUnknownTable;
    }
    const TableSpec& spec = Spec(gradient.table);
    if (gradient.values.size() != gradient.keys.size() * spec.dim) {
      *why = "the gradient of table " + spec.name + " does not have dim values a key";
      return PushAnswer::kMalformed;
    }
  }
  const PushAnswer answer = applied_.Judge(tag, why);
  if (answer != PushAnswer::kApplied) return answer;
  for (const TableGradient& gradient : gradients) {
    *why = WhyNotFinite(Spec(gradient.table), gradient);
    if (!why->empty()) return PushAnswer::kNotFinite;
  }
  return PushAnswer::kApplied;
}

PushAnswer Holding::Push(const PushTag& tag, std::span<const TableGradient> gradients,
                         std::string* why) {
  const PushAnswer answer = Judge(tag, gradients, why);
  if (answer != PushAnswer::kFenced) RaiseRecovery(tag.recovery);
  if (answer != PushAnswer::kApplied) return answer;
  std::optional<PartitionBits> takes;
  if (!applied_.AreOne()) takes = applied_.Takes(tag);
  for (const TableGradient& gradient : gradients) {
    tables_[gradient.table]->Push(gradient.keys, gradient.values, takes ? &*takes : nullptr);
    changed_[gradient.table].Note(gradient.keys);
  }
  applied_.Add(tag);
  return answer;
}

TableCounts Holding::Counts(uint32_t table) const {
  const Table& it = *tables_[table];
  return {.rows = it.rows(),
          .bytes = it.bytes(),
          .budget_bytes = it.spec().budget_bytes,
          .admitted = it.admitted(),
          .refused = it.refused(),
          .is_closed = it.is_closed()};
}

void Holding::RaiseRecovery(uint64_t recovery) { recovery_ = std::max(recovery_, recovery); }

void Holding::Keep(const PartitionBits& kept) {
  for (const std::unique_ptr<Table>& table : tables_) {
    for (uint32_t i = 0; i < kPartitions; ++i) {
      if (!kept[i]) table->Drop(i);
    }
  }
  applied_.Keep(kept);
  for (ChangedKeys& changed : changed_) changed.Forget();
}

const IntervalSet& Holding::Applied(uint32_t partition, uint64_t set) const {
  static const IntervalSet none;
  const AppliedSet& applied = applied_.Of(partition);
  const auto found = applied.find(set);
  return found != applied.end() ? found->second : none;
}

void Holding::Visit(uint32_t table, uint32_t partition, const RowVisitor& visit) const {
  const uint32_t dim = Spec(table).dim;
  tables_[table]->Visit(
      partition, [&](uint64_t key, std::span<const float> row) { visit(key, row.first(dim)); });
}

const std::vector<uint64_t>* Holding::TakeChanged(uint32_t table, uint64_t number) {
  return changed_[table].Take(number);
}

const std::vector<uint64_t>* Holding::Taken(uint32_t table, uint64_t number) const {
  return changed_[table].Taken(number);
}

void Holding::VisitKeys(uint32_t table, std::span<const uint64_t> keys,
                        const KeyVisitor& visit) const {
  tables_[table]->VisitKeys(keys, visit);
}

uint64_t Holding::RowsOf(uint32_t partition) const {
  uint64_t rows = 0;
  for (const auto& table : tables_) rows += table->RowsOf(partition);
  return rows;
}

uint64_t Holding::BytesOf(uint32_t partition) const {
  uint64_t bytes = 0;
  for (const auto& table : tables_) {
    bytes += table->RowsOf(partition) * (sizeof(uint64_t) + table->row_floats() * sizeof(float));
  }
  return bytes;
}

std::string Holding::SavePartition(uint32_t partition) const {
  PartitionImage image{.partition = partition, .applied = applied_.Of(partition)};
  std::vector<const Table*> tables;
  for (const auto& table : tables_) {
    if (table->RowsOf(partition) > 0) tables.push_back(table.get());
  }
  std::sort(tables.begin(), tables.end(), [](const Table* one, const Table* other) {
    return one->spec().name < other->spec().name;
  });
  std::vector<SortedRows> sorted;
  sorted.reserve(tables.size());
  for (const Table* table : tables) {
    sorted.emplace_back(*table, partition);
    image.tables.push_back({.spec = table->spec(),
                            .row_floats = table->row_floats(),
                            .rows = table->RowsOf(partition),
                            .keys = sorted.back().keys,
                            .floats = sorted.back().floats});
  }
  return WriteImage(image);
}

Result<uint32_t> Holding::LoadPartition(std::string_view bytes) {
  ASSIGN_OR_RETURN(const PartitionImage image, ReadImage(bytes));
  for (const TableRows& rows : image.tables) {
    const uint32_t number = NumberOf(rows.spec.name);
    if (number == tables()) continue;
    const std::string difference = Difference(Spec(number), rows.spec);
    if (!difference.empty()) return Failure{FailureKind::kExists, difference};
  }
  for (const auto& table : tables_) table->Drop(image.partition);
  for (const TableRows& rows : image.tables) {
    const uint32_t number = NumberOf(rows.spec.name);
    if (number == tables()) {
      tables_.push_back(std::make_unique<Table>(rows.spec, salt_));
      changed_.emplace_back();
    }
    tables_[number]->Restore(rows);
  }
  applied_.Set(image.partition, image.applied);
  return image.partition;
}

}  // namespace paceline::ps
