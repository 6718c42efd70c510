#pragma once

// The partitions of a holding as one file, which is written front to back, one partition at a time,
// and ends with an index. So any number of servers can load partitions singly, by ranges of bytes,
// from any number of files. Pure: this makes and reads bytes; hosts write and fetch them.
// docs/formats/table_snapshot.md specifies the file.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ps/holding.h"

namespace paceline::ps {

inline constexpr size_t kSnapshotTrailerBytes = 64;

// Bytes of a file. `rows` is of all tables.
struct PartitionPlace {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t rows = 0;
  bool operator==(const PartitionPlace&) const = default;
};

struct SnapshotIndex {
  std::vector<TableSpec> tables = {};  // by name, also without rows
  std::map<uint32_t, PartitionPlace> partitions = {};
  bool operator==(const SnapshotIndex&) const = default;
};

class SnapshotWriter {
 public:
  // The next bytes of the file: this partition, which was not added before. The holding may change
  // between two calls.
  std::string Add(const Holding& holding, uint32_t partition);
  // The last bytes of the file. `job` tells who wrote it: a hash of the job's id, or 0.
  std::string Finish(const Holding& holding, uint64_t job) const;

  uint64_t written() const { return written_; }

 private:
  SnapshotIndex index_;
  uint64_t written_ = 0;
};

// Where the index of a file lies, and which job wrote the file.
struct IndexPlace {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t hash = 0;
  uint64_t job = 0;
};
// `bytes` are the last kSnapshotTrailerBytes of a file. kDamaged.
Result<IndexPlace> ReadTrailer(std::string_view bytes, uint64_t file_bytes);
// `bytes` are those of the place. kDamaged.
Result<SnapshotIndex> ReadIndex(std::string_view bytes, const IndexPlace& place);

}  // namespace paceline::ps
