#pragma once

// Inside of the journal: SQLite calls as Status, rows as records.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/core/record.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline::master {

// What the disk or SQLite says, as Problem PL-E032, or PL-E034 when the file is not what we wrote.
absl::Status JournalError(sqlite3* db, const std::string& path, int result);

// PL-E034: the file cannot be what was written.
absl::Status JournalDamaged(const std::string& path, const std::string& why);

absl::Status Execute(sqlite3* db, const std::string& path, const char* sql);

// Rows from `from` on, at most `count_max`. DATA_LOSS when a number is missing or a row cannot be
// read as a record.
absl::StatusOr<std::vector<core::Record>> ReadRows(sqlite3* db, const std::string& path,
                                                   RecordSeq from, uint32_t count_max);

// No fact is larger: a world of 100,000 nodes has 10 MB. A larger row is damage, and is not read
// into memory.
inline constexpr int kRecordBytesMax = 16 << 20;
// All of them. DATA_LOSS also: there are none, because the file was cut off.
absl::StatusOr<std::vector<core::Record>> ReadAllRows(sqlite3* db, const std::string& path);

// PL-E033 when `dir` is on a network file system whose locks do not work.
absl::Status CheckFileSystem(int fd, const std::string& path);

std::string EncodeCauses(const std::vector<RecordSeq>& causes);
absl::StatusOr<std::vector<RecordSeq>> DecodeCauses(std::string_view bytes);

}  // namespace paceline::master
