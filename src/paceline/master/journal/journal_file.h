#pragma once

// Internal to the files of the master: SQLite calls as Status, rows as records.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/core/record.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline::master {

inline constexpr int kJournalSchema = 1;  // of both journals

struct SqliteEnd {
  void operator()(sqlite3* db) const;
  void operator()(sqlite3_stmt* statement) const;
};
using Database = std::unique_ptr<sqlite3, SqliteEnd>;
using Statement = std::unique_ptr<sqlite3_stmt, SqliteEnd>;

// Refuses queries and programs in the file's schema, which may be another user's: a view in place
// of a table can go on without end.
void DistrustDatabase(sqlite3* db);

// Makes the file with mode 0600, unless there is one. SQLite gives its other files the same mode.
// An existing file is not opened: closing a descriptor would end this process's locks on it.
void MakeDatabaseFile(const std::string& path);

// Opens the file for its master. A missing file is made, and `create` makes its tables. Every
// commit is durable. SQLite moves its log into the file after `log_pages` pages. PL-E036: a newer
// version wrote the file.
absl::StatusOr<Database> OpenToWrite(const std::string& path, const char* create, int log_pages);

// Reserved blocks of the disk behind the end of SQLite's log, so that the next rows can be written
// when the disk is full: a rank that fails because of the full disk is then known and replaced, and
// a master that dies is followed by the next one. A file system that cannot reserve blocks gives no
// room.
class KeptRoom {
 public:
  // Of the database at `path`.
  KeptRoom(const std::string& path, uint64_t bytes) : log_path_(path + "-wal"), bytes_(bytes) {}
  // Reserves again once half of the room is used. After a commit, when the log exists.
  void Keep();

 private:
  const std::string log_path_;
  const uint64_t bytes_;
  Fd log_;
  uint64_t until_ = 0;  // how far the log may grow on a full disk
};

// Opens the file for a command, also while a master writes. Null: nothing was written yet.
// NOT_FOUND: there is no file.
absl::StatusOr<Database> OpenToRead(const std::string& path);

absl::StatusOr<Statement> PrepareSql(sqlite3* db, const std::string& path, const char* sql);

// The first column of the first row.
absl::StatusOr<uint64_t> Number(sqlite3* db, const std::string& path, const char* sql);

// Runs `write` as one transaction. An error undoes all of it.
absl::Status InTransaction(sqlite3* db, const std::string& path,
                           const std::function<absl::Status()>& write);

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

// Upper limit of a record. A world with 100,000 nodes makes a record of 10 MB. A larger row is
// damage and is not read into memory.
inline constexpr int kRecordBytesMax = 16 << 20;
// All rows. DATA_LOSS also if there are none because the file was truncated.
absl::StatusOr<std::vector<core::Record>> ReadAllRows(sqlite3* db, const std::string& path);

// PL-E033 if the file is on a network file system without working locks.
absl::Status CheckFileSystem(int fd, const std::string& path);

std::string EncodeCauses(const std::vector<RecordSeq>& causes);
absl::StatusOr<std::vector<RecordSeq>> DecodeCauses(std::string_view bytes);

}  // namespace paceline::master
