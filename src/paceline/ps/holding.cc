#include "paceline/ps/holding.h"

#include <algorithm>
#include <cmath>

#include "paceline/base/check.h"
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

}  // namespace

Holding::Holding() = default;
Holding::~Holding() = default;

Result<uint32_t> Holding::Open(const TableSpec& spec) {
  const std::string broken = BrokenRule(spec);
  if (!broken.empty()) return Failure{FailureKind::kInvalid, broken};
  for (uint32_t i = 0; i < tables(); ++i) {
    if (Spec(i).name != spec.name) continue;
    const std::string difference = Difference(Spec(i), spec);
    if (!difference.empty()) return Failure{FailureKind::kExists, difference};
    tables_[i]->SetSpec(spec);
    return i;
  }
  tables_.push_back(std::make_unique<Table>(spec));
  return tables() - 1;
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
  return tables_[table]->Init(keys, values);
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
    const TableSpec& spec = Spec(gradient.table);
    const auto bad = std::find_if_not(gradient.values.begin(), gradient.values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad == gradient.values.end()) continue;
    const auto at = static_cast<size_t>(bad - gradient.values.begin());
    *why = "the gradient of table " + spec.name + ", key " +
           std::to_string(static_cast<int64_t>(gradient.keys[at / spec.dim])) + ", is " +
           std::to_string(*bad);
    return PushAnswer::kNotFinite;
  }
  return PushAnswer::kApplied;
}

PushAnswer Holding::Push(const PushTag& tag, std::span<const TableGradient> gradients,
                         std::string* why) {
  const PushAnswer answer = Judge(tag, gradients, why);
  if (answer != PushAnswer::kFenced) RaiseRecovery(tag.recovery);
  if (answer != PushAnswer::kApplied) return answer;
  Table::Takes takes;
  if (!applied_.AreOne()) {
    takes = [&](uint32_t partition) { return applied_.Takes(partition, tag); };
  }
  for (const TableGradient& gradient : gradients) {
    tables_[gradient.table]->Push(gradient.keys, gradient.values, takes);
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
          .is_closed = it.IsClosed()};
}

void Holding::RaiseRecovery(uint64_t recovery) { recovery_ = std::max(recovery_, recovery); }

const IntervalSet& Holding::Applied(uint32_t partition, uint64_t set) const {
  static const IntervalSet none;
  const AppliedSet& applied = applied_.Of(partition);
  const auto found = applied.find(set);
  return found != applied.end() ? found->second : none;
}

void Holding::Visit(uint32_t table, uint32_t partition, const RowVisitor& visit) const {
  tables_[table]->Visit(partition, visit);
}

}  // namespace paceline::ps
