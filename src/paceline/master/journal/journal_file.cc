#include "paceline/master/journal/journal_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <limits>
#include <memory>

#include "paceline/base/remote_file_system.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/model/problem.h"
#include "paceline/wire/codec/journal_codec.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

std::string_view Column(sqlite3_stmt* row, int column) {
  const void* bytes = sqlite3_column_blob(row, column);
  const int size = sqlite3_column_bytes(row, column);
  return {static_cast<const char*>(bytes), bytes == nullptr ? 0 : static_cast<size_t>(size)};
}

absl::StatusOr<core::Record> ToRecord(sqlite3_stmt* row) {
  core::Record record;
  record.seq = RecordSeq(static_cast<uint64_t>(sqlite3_column_int64(row, 0)));
  record.at = Instant::FromNanoseconds(sqlite3_column_int64(row, 1));
  ASSIGN_OR_RETURN(record.causes, DecodeCauses(Column(row, 2)));
  ASSIGN_OR_RETURN(record.fact, wire::DecodeFact(Column(row, 3)));
  return record;
}

// The version of the file's tables; 0: it has none yet.
absl::StatusOr<uint64_t> SchemaOf(sqlite3* db, const std::string& path) {
  ASSIGN_OR_RETURN(const uint64_t version, Number(db, path, "PRAGMA user_version"));
  if (version <= kJournalSchema) return version;
  return ToStatus(
      absl::StatusCode::kFailedPrecondition,
      {.code = "PL-E036",
       .what = "the journal was written by a newer paceline",
       .where = path,
       .why = Concat("its schema is ", version, ", this version knows ", kJournalSchema),
       .fix = "resume the job with the version that started it"});
}

// SQLite refuses a path with a symbolic link anywhere in it. Only the file itself must not be one.
std::string InRealFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  char real[PATH_MAX];
  if (realpath(folder.c_str(), real) == nullptr) return path;
  return Concat(real, "/", slash == std::string::npos ? path : path.substr(slash + 1));
}

}  // namespace

void DistrustDatabase(sqlite3* db) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
}

void MakeDatabaseFile(const std::string& path) {
  Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

void SqliteEnd::operator()(sqlite3* db) const { sqlite3_close(db); }
void SqliteEnd::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::StatusOr<Database> OpenToWrite(const std::string& asked, const char* create, int log_pages) {
  sqlite3* raw = nullptr;
  const std::string path = InRealFolder(asked);
  MakeDatabaseFile(path);
  const int result = sqlite3_open_v2(
      path.c_str(), &raw,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
      nullptr);
  Database db(raw);
  if (result != SQLITE_OK) return JournalError(raw, path, result);
  DistrustDatabase(raw);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 5000);  // a command that reads the file locks it for milliseconds
  RETURN_IF_ERROR(Execute(raw, path, "PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(Execute(raw, path, "PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(Execute(raw, path, Concat("PRAGMA wal_autocheckpoint = ", log_pages).c_str()));
  ASSIGN_OR_RETURN(const uint64_t version, SchemaOf(raw, path));
  if (version == 0) RETURN_IF_ERROR(Execute(raw, path, create));
  return db;
}

void KeptRoom::Keep() {
  if (!log_.is_open()) log_ = Fd(open(log_path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat found {};
  if (!log_.is_open() || fstat(log_.get(), &found) != 0) return;
  const auto size = static_cast<uint64_t>(found.st_size);
  if (size + bytes_ / 2 <= until_) return;
  const uint64_t wanted = size + bytes_;
  const int failed = fallocate(log_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(wanted));
  if (failed == 0) until_ = wanted;
}

absl::StatusOr<Database> OpenToRead(const std::string& asked) {
  sqlite3* raw = nullptr;
  const std::string path = InRealFolder(asked);
  // SQLite would wait for ever for the other end of a pipe.
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat found {};
    if (::lstat(Concat(path, suffix).c_str(), &found) != 0 || S_ISREG(found.st_mode)) continue;
    return absl::UnavailableError(Concat(path, suffix, ": is no regular file"));
  }
  const int result =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
  Database db(raw);
  if (result != SQLITE_OK) {
    return MakeStatus(
        result == SQLITE_CANTOPEN ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
        path + ": " + sqlite3_errstr(result));
  }
  DistrustDatabase(raw);
  sqlite3_busy_timeout(raw, 2000);
  RETURN_IF_ERROR(Execute(raw, path, "PRAGMA query_only = 1"));
  ASSIGN_OR_RETURN(const uint64_t version, SchemaOf(raw, path));
  if (version == 0) db.reset();
  return db;
}

absl::StatusOr<Statement> PrepareSql(sqlite3* db, const std::string& path, const char* sql) {
  sqlite3_stmt* made = nullptr;
  const int result = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  if (result != SQLITE_OK) return JournalError(db, path, result);
  return Statement(made);
}

absl::StatusOr<uint64_t> Number(sqlite3* db, const std::string& path, const char* sql) {
  ASSIGN_OR_RETURN(const Statement query, PrepareSql(db, path, sql));
  const int result = sqlite3_step(query.get());
  if (result != SQLITE_ROW) return JournalError(db, path, result);
  return static_cast<uint64_t>(sqlite3_column_int64(query.get(), 0));
}

absl::Status InTransaction(sqlite3* db, const std::string& path,
                           const std::function<absl::Status()>& write) {
  RETURN_IF_ERROR(Execute(db, path, "BEGIN IMMEDIATE"));
  absl::Status status = write();
  if (status.ok()) status = Execute(db, path, "COMMIT");
  // SQLite rolls back some errors by itself; a second rollback is then a harmless error.
  if (!status.ok()) sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

absl::Status JournalDamaged(const std::string& path, const std::string& why) {
  return ToStatus(absl::StatusCode::kDataLoss,
                  {.code = "PL-E034",
                   .what = "the journal is damaged",
                   .where = path,
                   .why = why,
                   .fix = "keep the file, and start again with another --run-dir"});
}

absl::Status JournalError(sqlite3* db, const std::string& path, int result) {
  const std::string why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(result);
  const int kind = result & 0xff;
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_MISMATCH ||
      kind == SQLITE_TOOBIG) {
    return JournalDamaged(path, why);
  }
  return ToStatus(
      kind == SQLITE_FULL ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      {.code = "PL-E032",
       .what = "the journal cannot be written",
       .where = path,
       .why = why,
       .fix = "make room on the disk, or make the directory writable"});
}

absl::Status Execute(sqlite3* db, const std::string& path, const char* sql) {
  const int result = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : JournalError(db, path, result);
}

absl::StatusOr<std::vector<core::Record>> ReadRows(sqlite3* db, const std::string& path,
                                                   RecordSeq from, uint32_t count_max) {
  sqlite3_stmt* prepared = nullptr;
  int result = sqlite3_prepare_v2(
      db, "SELECT seq, at_ns, causes, payload FROM records WHERE seq >= ? ORDER BY seq LIMIT ?", -1,
      &prepared, nullptr);
  // A table of another schema.
  if ((result & 0xff) == SQLITE_ERROR) return JournalDamaged(path, sqlite3_errmsg(db));
  if (result != SQLITE_OK) return JournalError(db, path, result);
  const Statement query(prepared);
  sqlite3_bind_int64(query.get(), 1, static_cast<int64_t>(from.value()));
  sqlite3_bind_int64(query.get(), 2, count_max);
  std::vector<core::Record> records;
  while ((result = sqlite3_step(query.get())) == SQLITE_ROW) {
    absl::StatusOr<core::Record> record = ToRecord(query.get());
    const uint64_t expected = from.value() + records.size();
    if (!record.ok() || record->seq.value() != expected) {
      return JournalDamaged(path, "record " + std::to_string(expected) +
                                      (record.ok() ? std::string(" is missing")
                                                   : ": " + std::string(Text(record.status()))));
    }
    records.push_back(*std::move(record));
  }
  if (result != SQLITE_DONE) return JournalError(db, path, result);
  return records;
}

namespace {

// SQLite reads the missing part of a truncated file as zeros, and may then find no record.
absl::Status CheckEmpty(sqlite3* db, const std::string& path) {
  ASSIGN_OR_RETURN(const Statement query, PrepareSql(db, path, "PRAGMA quick_check(1)"));
  const int result = sqlite3_step(query.get());
  if (result != SQLITE_ROW) return JournalError(db, path, result);
  if (Column(query.get(), 0) == "ok") return absl::OkStatus();
  return JournalDamaged(path, "it has no records and is incomplete: it was cut off");
}

}  // namespace

absl::StatusOr<std::vector<core::Record>> ReadAllRows(sqlite3* db, const std::string& path) {
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kRecordBytesMax);
  ASSIGN_OR_RETURN(std::vector<core::Record> records,
                   ReadRows(db, path, RecordSeq(1), std::numeric_limits<uint32_t>::max()));
  if (records.empty()) RETURN_IF_ERROR(CheckEmpty(db, path));
  return records;
}

absl::Status CheckFileSystem(int fd, const std::string& path) {
  struct statfs info = {};
  if (fstatfs(fd, &info) != 0 || !IsRemoteFileSystem(info.f_type)) return absl::OkStatus();
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0 || errno == EAGAIN || errno == EACCES) {
    return absl::OkStatus();
  }
  return ToStatus(absl::StatusCode::kFailedPrecondition,
                  {.code = "PL-E033",
                   .what = "the run directory is on a file system without working locks",
                   .where = path,
                   .why = "two masters could then write the same journal",
                   .fix = "put the run directory on a local disk with --run-dir"});
}

std::string EncodeCauses(const std::vector<RecordSeq>& causes) {
  std::string text;
  for (const RecordSeq cause : causes) {
    if (!text.empty()) text += ' ';
    text += ToString(cause);
  }
  return text;
}

absl::StatusOr<std::vector<RecordSeq>> DecodeCauses(std::string_view bytes) {
  std::vector<RecordSeq> causes;
  for (const std::string_view cause : SplitParts(bytes, " ")) {
    causes.emplace_back(ParseWhole<uint64_t>(cause).value_or(0));
  }
  if (EncodeCauses(causes) == bytes) return causes;
  return absl::DataLossError("its causes are not a list of numbers");
}

}  // namespace paceline::master
