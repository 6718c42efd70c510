#pragma once

// Internal to the journal: SQLite calls as Status, rows as records.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/core/record.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline::master {

// An error of the disk or of SQLite, as Problem PL-E032; PL-E034 if the file is not one that we
// wrote.
absl::Status JournalError(sqlite3* db, const std::string& path, int result);

// PL-E034: the file differs from what was written.
absl::Status JournalDamaged(const std::string& path, const std::string& why);

absl::Status Execute(sqlite3* db, const std::string& path, const char* sql);

// Rows from `from` on, at most `count_max`. DATA_LOSS: a number is missing, or a row is not a
// record.
absl::StatusOr<std::vector<core::Record>> ReadRows(sqlite3* db, const std::string& path,
                                                   RecordSeq from, uint32_t count_max);

// Facts are smaller: one of a world with 100,000 nodes has 10 MB. A larger row is damage and is not
// read into memory.
inline constexpr int kRecordBytesMax = 16 << 20;
// All rows. DATA_LOSS also if there are none because the file was truncated.
absl::StatusOr<std::vector<core::Record>> ReadAllRows(sqlite3* db, const std::string& path);

// PL-E033 if the file is on a network file system without working locks.
absl::Status CheckFileSystem(int fd, const std::string& path);

std::string EncodeCauses(const std::vector<RecordSeq>& causes);
absl::StatusOr<std::vector<RecordSeq>> DecodeCauses(std::string_view bytes);

}  // namespace paceline::master
