#include "paceline/client/tables/own_tables.h"

#include <utility>

namespace paceline::client {
namespace {

class OwnTables final : public Tables {
 public:
  Result<uint32_t> Open(const ps::TableSpec& spec) override { return holding_.Open(spec); }

  Result<void> Pull(std::span<const TableRead> reads, bool is_training) override {
    for (const TableRead& read : reads) {
      holding_.Pull(read.table, read.keys, is_training, read.rows);
    }
    return {};
  }

  Result<void> Init(uint32_t table, std::span<const uint64_t> keys,
                    std::span<const float> values) override {
    holding_.Init(table, keys, values);
    return {};
  }

  Result<PushOutcome> Push(const ps::PushTag& tag,
                           std::span<const ps::TableGradient> gradients) override {
    PushOutcome outcome;
    outcome.answer = holding_.Push(tag, gradients, &outcome.why);
    if (outcome.answer == ps::PushAnswer::kOverlaps) outcome.parts = holding_.PartsOf(tag);
    return outcome;
  }

  Result<std::vector<TableView>> Counts() override {
    std::vector<TableView> views;
    for (uint32_t table = 0; table < holding_.tables(); ++table) {
      views.push_back({.spec = holding_.Spec(table), .counts = holding_.Counts(table)});
    }
    return views;
  }

  Result<void> Export(uint32_t table, const Visitor& visit) override {
    std::vector<uint64_t> keys;
    std::vector<float> rows;
    for (uint32_t partition = 0; partition < ps::kPartitions; ++partition) {
      holding_.Visit(table, partition, [&](uint64_t key, std::span<const float> values) {
        keys.push_back(key);
        rows.insert(rows.end(), values.begin(), values.end());
      });
      const bool is_last = partition + 1 == ps::kPartitions;
      if (keys.size() < kBlockRows && !(is_last && !keys.empty())) continue;
      visit(keys, rows);
      keys.clear();
      rows.clear();
    }
    return {};
  }

  Result<bool> Changed(uint32_t table, uint64_t number, const Visitor& visit) override {
    const std::vector<uint64_t>* const changed = holding_.TakeChanged(table, number);
    if (changed == nullptr) return false;
    std::vector<uint64_t> keys;
    std::vector<float> rows;
    holding_.VisitKeys(table, *changed, [&](uint64_t key, std::span<const float> values) {
      keys.push_back(key);
      rows.insert(rows.end(), values.begin(), values.end());
    });
    if (!keys.empty()) visit(keys, rows);
    return true;
  }

 private:
  static constexpr size_t kBlockRows = 4'096;  // of a visited block, about

  ps::Holding holding_;
};

}  // namespace

std::unique_ptr<Tables> MakeOwnTables() { return std::make_unique<OwnTables>(); }

}  // namespace paceline::client
