#include "paceline/master/history/history_file.h"

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/master/history/curve_text.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

constexpr int kHistorySchema = 1;
constexpr int kRowBytesMax = 1 << 20;
constexpr int kBusyMs = 200;  // another master writes for milliseconds
constexpr char kCreateHistory[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, signature TEXT NOT NULL,"
    " name TEXT NOT NULL, device TEXT NOT NULL, at_ms INTEGER NOT NULL,"
    " shares_batch INTEGER NOT NULL, curve TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS runs_by_signature ON runs (signature, at_ms);"
    "PRAGMA user_version = 1;"
    "COMMIT";

absl::Status HistoryError(sqlite3* db, const std::string& path, int result) {
  const char* why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(result);
  return MakeStatus(absl::StatusCode::kUnavailable, Concat(path, ": ", why));
}

absl::Status RunHistorySql(sqlite3* db, const std::string& path, const char* sql) {
  const int result = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : HistoryError(db, path, result);
}

absl::StatusOr<Statement> PrepareHistorySql(sqlite3* db, const std::string& path, const char* sql) {
  sqlite3_stmt* made = nullptr;
  const int result = sqlite3_prepare_v2(db, sql, -1, &made, nullptr);
  if (result != SQLITE_OK) return HistoryError(db, path, result);
  return Statement(made);
}

void BindText(sqlite3_stmt* statement, int column, const std::string& text) {
  sqlite3_bind_text(statement, column, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}

std::string TextOf(sqlite3_stmt* row, int column) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(row, column));
  return bytes == nullptr
             ? ""
             : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(row, column)));
}

absl::StatusOr<int> HistorySchemaOf(sqlite3* db, const std::string& path) {
  ASSIGN_OR_RETURN(const Statement query, PrepareHistorySql(db, path, "PRAGMA user_version"));
  const int result = sqlite3_step(query.get());
  if (result != SQLITE_ROW) return HistoryError(db, path, result);
  const int version = sqlite3_column_int(query.get(), 0);
  if (version <= kHistorySchema) return version;
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    Concat(path, ": a newer paceline wrote it (schema ", version, ")"));
}

// None if the row is not one that this version wrote; it is skipped.
std::optional<JobHistory> FromRow(sqlite3_stmt* row) {
  std::optional<std::vector<SizeSpeed>> curve = CurveFromText(TextOf(row, 6));
  if (!curve.has_value()) return std::nullopt;
  return JobHistory{.run = TextOf(row, 0),
                    .signature = TextOf(row, 1),
                    .name = TextOf(row, 2),
                    .device = TextOf(row, 3),
                    .at_ms = sqlite3_column_int64(row, 4),
                    .shares_batch = sqlite3_column_int(row, 5) != 0,
                    .curve = *std::move(curve)};
}

}  // namespace

absl::StatusOr<HistoryFile> HistoryFile::Open(const std::string& folder) {
  RETURN_IF_ERROR(MakeDirs(folder, 0700));
  return OpenAt(folder, true);
}

absl::StatusOr<HistoryFile> HistoryFile::OpenExisting(const std::string& folder) {
  struct stat found {};
  const std::string path = folder + "/history.db";
  if (::lstat(path.c_str(), &found) != 0) return absl::NotFoundError(path + ": there is none yet");
  return OpenAt(folder, false);
}

absl::StatusOr<HistoryFile> HistoryFile::OpenAt(const std::string& folder, bool may_make) {
  const std::string path = folder + "/history.db";
  if (may_make) MakeDatabaseFile(path);
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return MakeStatus(absl::StatusCode::kUnavailable, path + ": is no regular file");
  }
  sqlite3* raw = nullptr;
  const int result =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  HistoryFile file(path, Database(raw));
  if (result != SQLITE_OK) return HistoryError(raw, path, result);
  DistrustDatabase(raw);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kRowBytesMax);
  sqlite3_busy_timeout(raw, kBusyMs);
  ASSIGN_OR_RETURN(const int version, HistorySchemaOf(raw, path));
  if (version == 0 && may_make) RETURN_IF_ERROR(RunHistorySql(raw, path, kCreateHistory));
  return file;
}

absl::Status HistoryFile::Put(const JobHistory& history) {
  ASSIGN_OR_RETURN(
      const Statement insert,
      PrepareHistorySql(db_.get(), path_, "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?)"));
  BindText(insert.get(), 1, history.run);
  BindText(insert.get(), 2, history.signature);
  BindText(insert.get(), 3, history.name);
  BindText(insert.get(), 4, history.device);
  sqlite3_bind_int64(insert.get(), 5, history.at_ms);
  sqlite3_bind_int(insert.get(), 6, history.shares_batch ? 1 : 0);
  BindText(insert.get(), 7, CurveToText(history.curve));
  const int result = sqlite3_step(insert.get());
  if (result != SQLITE_DONE) return HistoryError(db_.get(), path_, result);
  ASSIGN_OR_RETURN(
      const Statement prune,
      PrepareHistorySql(db_.get(), path_,
                        "DELETE FROM runs WHERE run IN"
                        " (SELECT run FROM runs ORDER BY at_ms DESC LIMIT -1 OFFSET ?)"));
  sqlite3_bind_int64(prune.get(), 1, kRunsMax);
  const int pruned = sqlite3_step(prune.get());
  return pruned == SQLITE_DONE ? absl::OkStatus() : HistoryError(db_.get(), path_, pruned);
}

absl::StatusOr<std::vector<JobHistory>> HistoryFile::Newest(const std::string& signature,
                                                            uint32_t count_max) {
  ASSIGN_OR_RETURN(
      const Statement query,
      PrepareHistorySql(db_.get(), path_,
                        "SELECT run, signature, name, device, at_ms, shares_batch, curve FROM runs"
                        " WHERE ?1 = '' OR signature = ?1 ORDER BY at_ms DESC, run LIMIT ?2"));
  BindText(query.get(), 1, signature);
  sqlite3_bind_int64(query.get(), 2, count_max);
  std::vector<JobHistory> found;
  int result = SQLITE_DONE;
  while ((result = sqlite3_step(query.get())) == SQLITE_ROW) {
    if (auto one = FromRow(query.get()); one.has_value()) found.push_back(*std::move(one));
  }
  if (result != SQLITE_DONE) return HistoryError(db_.get(), path_, result);
  return found;
}

absl::StatusOr<uint64_t> HistoryFile::Forget(const std::string& name) {
  ASSIGN_OR_RETURN(
      const Statement remove,
      PrepareHistorySql(db_.get(), path_, "DELETE FROM runs WHERE ?1 = '' OR name = ?1"));
  BindText(remove.get(), 1, name);
  const int result = sqlite3_step(remove.get());
  if (result != SQLITE_DONE) return HistoryError(db_.get(), path_, result);
  return static_cast<uint64_t>(sqlite3_changes(db_.get()));
}

}  // namespace paceline::master
