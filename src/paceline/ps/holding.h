#pragma once

// The rows of one server, or of a process that keeps its tables itself. Pure: bytes and decisions,
// no sockets and no clock. One thread uses a holding at a time.
//
// A push counts exactly once in each partition. A holding keeps, for each data set, which ordinals
// its partitions have applied. A batch whose ordinals are all applied is skipped, and one with none
// of them is applied. A batch with some of them is refused. Of a live stream, its parts are pushed
// (push.h). Of a data set of fixed size, that is a bug or another batch size.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ps/applied.h"
#include "paceline/ps/changed_keys.h"
#include "paceline/ps/push.h"
#include "paceline/ps/table_spec.h"

namespace paceline::ps {

class Table;

struct TableCounts {
  uint64_t rows = 0;
  uint64_t bytes = 0;         // rows and index
  uint64_t budget_bytes = 0;  // 0: none
  uint64_t admitted = 0;      // keys that got a row since the table was opened
  uint64_t refused = 0;       // times that a key got none, because the budget was reached
  bool is_closed = false;     // the budget admits no more keys
};

class Holding {
 public:
  static constexpr uint64_t kSalt = 0x9E3779B97F4A7C15u;

  // `salt` chooses where keys lie in memory, and nothing else. With a secret and random one, nobody
  // can choose keys that collide; the layer itself knows no chance.
  explicit Holding(uint64_t salt = kSalt);
  ~Holding();
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  // The table's number in this holding, from 0 in order of opening. A table that is open already
  // has the same dim, optimizer, seed and scale (else kExists); its other numbers (rate, epsilon,
  // betas, initial, budget) become those of `spec`. kInvalid: the spec violates a rule, which the
  // message names.
  Result<uint32_t> Open(const TableSpec& spec);

  uint32_t tables() const;
  const TableSpec& Spec(uint32_t table) const;  // table < tables()

  // Copies the values of the keys' rows to `rows`, keys × dim floats. A key without a row gets its
  // first values; if `is_training`, it also gets a row, unless the budget is reached.
  void Pull(uint32_t table, std::span<const uint64_t> keys, bool is_training,
            std::span<float> rows);

  // Makes rows for those keys that have none, with these values (keys × dim floats), as far as the
  // budget allows. Returns how many rows it made.
  uint64_t Init(uint32_t table, std::span<const uint64_t> keys, std::span<const float> values);

  // All or nothing: an answer other than kApplied has changed no row, and `why` says the reason if
  // it is a refusal. A key without a row gets one with its first values before the step; beyond
  // the budget its gradient is dropped. A recovery number above this holding's raises it.
  PushAnswer Push(const PushTag& tag, std::span<const TableGradient> gradients, std::string* why);

  // A refused batch (kOverlaps) in parts, none of which overlaps.
  std::vector<OrdinalRange> PartsOf(const PushTag& tag) const { return applied_.Parts(tag); }

  TableCounts Counts(uint32_t table) const;

  // The keys that pushes and inits have changed between versions `number - 1` and `number` of a
  // reader; null: the reader needs all rows (ChangedKeys::Take). A table has one such reader.
  const std::vector<uint64_t>* TakeChanged(uint32_t table, uint64_t number);
  const std::vector<uint64_t>* Taken(uint32_t table, uint64_t number) const;
  // Calls `visit` with each of these keys that has a row.
  using KeyVisitor = std::function<void(uint64_t key, std::span<const float> values)>;
  void VisitKeys(uint32_t table, std::span<const uint64_t> keys, const KeyVisitor& visit) const;

  // Pushes with a lower number are refused from now on. It never falls.
  void RaiseRecovery(uint64_t recovery);
  uint64_t recovery() const { return recovery_; }

  // The partitions that this holding has; all, if it is never called. Drops the rows of others, and
  // what others have applied no longer counts.
  void Keep(const PartitionBits& kept);

  // Returns the partition's rows and what it has applied, as an image (partition_image.h).
  std::string SavePartition(uint32_t partition) const;
  // Replaces all rows of the partition, and what it has applied, by those of an image. Opens tables
  // that are not open. Rates and budgets of open tables stay, and a budget refuses no loaded row.
  // Returns the partition's number. kDamaged; kExists: an open table has another dim, optimizer,
  // seed or scale. Then nothing has changed.
  Result<uint32_t> LoadPartition(std::string_view image);

  // Of all tables.
  uint64_t RowsOf(uint32_t partition) const;
  // Of the partition's image, about.
  uint64_t BytesOf(uint32_t partition) const;

  // Which ordinals of a data set a partition has applied.
  const IntervalSet& Applied(uint32_t partition, uint64_t set) const;

  // Calls `visit` with each row of a partition: its key and its values, without optimizer state.
  // The order is not specified.
  using RowVisitor = std::function<void(uint64_t key, std::span<const float> values)>;
  void Visit(uint32_t table, uint32_t partition, const RowVisitor& visit) const;

 private:
  // tables() if there is none.
  uint32_t NumberOf(std::string_view name) const;
  PushAnswer Judge(const PushTag& tag, std::span<const TableGradient> gradients,
                   std::string* why) const;

  const uint64_t salt_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<ChangedKeys> changed_;  // by table
  AppliedSets applied_;
  uint64_t recovery_ = 0;
};

// The first value of a gradient that is NaN or infinite, with its table and key. "": all are
// finite.
std::string WhyNotFinite(const TableSpec& spec, const TableGradient& gradient);

}  // namespace paceline::ps
