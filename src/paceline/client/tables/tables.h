// The port to the tables of a job: rows of embedding tables and chunks of dense tensors. A training
// process looks up rows, and pushes the gradients of one batch. own_tables.h keeps the tables
// inside the process, for a script without servers. Another implementation reaches table servers.
//
// Each batch is applied once. The caller pushes a batch, waits for the answer, and only then
// acknowledges the batch to the ledger of leases. A worker that dies in between leaves a batch that
// is leased again. Its second push is then skipped wherever the first one was applied.
//
// A call waits while a server is away, but not longer than `kPatience`. It then fails with kBusy,
// so that the caller can look at signals. The caller repeats the same call with the same
// arguments, which continues the work.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/base/result.h"
#include "paceline/ps/holding.h"

namespace paceline::client {

// Rows of one table that are looked up.
struct TableRead {
  uint32_t table = 0;
  std::span<const uint64_t> keys;  // distinct
  std::span<float> rows;           // out: dim values for each key
};

struct PushOutcome {
  // kSkipped only if all servers skipped the batch. Of several refusals, the first one.
  ps::PushAnswer answer = ps::PushAnswer::kApplied;
  std::string why;  // of a refusal
  // kOverlaps: the batch in parts, each of which every server has applied or not, as a whole.
  std::vector<OrdinalRange> parts = {};
};

struct TableView {
  ps::TableSpec spec;
  ps::TableCounts counts;  // over all servers
};

class Tables {
 public:
  static constexpr Duration kPatience = Duration::Milliseconds(200);

  Tables() = default;
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  virtual ~Tables() = default;

  // The table's number in this process. The same spec again gives the same number. kExists: the
  // table has another dim or optimizer; the message says which.
  virtual Result<uint32_t> Open(const ps::TableSpec& spec) = 0;

  // Looks up the rows of all reads in one round trip. A key without a row gets its first value, and
  // a row if `is_training` and the table's budget allows it.
  virtual Result<void> Pull(std::span<const TableRead> reads, bool is_training) = 0;

  // Gives these rows their first values, if they do not exist yet.
  virtual Result<void> Init(uint32_t table, std::span<const uint64_t> keys,
                            std::span<const float> values) = 0;

  // Applies the gradients of a batch, unless they are applied already. Answers when all servers
  // have answered. The gradient of a table comes in one piece, with distinct keys.
  virtual Result<PushOutcome> Push(const ps::PushTag& tag,
                                   std::span<const ps::TableGradient> gradients) = 0;

  // Tables in the order of their numbers.
  virtual Result<std::vector<TableView>> Counts() = 0;

  // Visits all rows of a table in blocks, in no order: keys, and dim values for each.
  using Visitor = std::function<void(std::span<const uint64_t>, std::span<const float>)>;
  virtual Result<void> Export(uint32_t table, const Visitor& visit) = 0;

  // Visits the rows that changed since version `number - 1`, as they are now. The same number again
  // visits the same rows and those that changed since. False: a server does not know which they
  // are, because it is new or nobody has asked for version `number - 1`. Then the visited rows may
  // lack some, and Export after this call has all of this version.
  virtual Result<bool> Changed(uint32_t table, uint64_t number, const Visitor& visit) = 0;
};

}  // namespace paceline::client
