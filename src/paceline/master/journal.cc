#include "paceline/master/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/master/clock.h"
#include "paceline/master/journal_file.h"
#include "paceline/model/problem.h"
#include "paceline/wire/codec/journal_codec.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

constexpr const char* kCreate =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS records("
    "  seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, wall_ns INTEGER NOT NULL,"
    "  kind TEXT NOT NULL, causes TEXT NOT NULL, payload BLOB NOT NULL) STRICT;"
    "PRAGMA user_version = 1;"
    "COMMIT;";
constexpr const char* kInsert =
    "INSERT INTO records(seq, at_ns, wall_ns, kind, causes, payload) VALUES (?, ?, ?, ?, ?, ?)";

absl::Status CannotOpen(const std::string& path, int error) {
  return ToStatus(absl::ErrnoToStatusCode(error),
                  {.code = "PL-E032",
                   .what = "the journal cannot be written",
                   .where = path,
                   .why = std::strerror(error),
                   .fix = "make the directory writable, or choose another --run-dir"});
}

absl::StatusOr<int> SchemaOf(sqlite3* db, const std::string& path) {
  sqlite3_stmt* query = nullptr;
  int result = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &query, nullptr);
  if (result == SQLITE_OK) result = sqlite3_step(query);
  const int version = result == SQLITE_ROW ? sqlite3_column_int(query, 0) : 0;
  sqlite3_finalize(query);
  if (result != SQLITE_ROW) return JournalError(db, path, result);
  return version;
}

absl::Status CheckSchema(int version, const std::string& path) {
  if (version <= kJournalSchema) return absl::OkStatus();
  return ToStatus(absl::StatusCode::kFailedPrecondition,
                  {.code = "PL-E036",
                   .what = "the journal was written by a newer paceline",
                   .where = path,
                   .why = "its schema is " + std::to_string(version) + ", this version knows " +
                          std::to_string(kJournalSchema),
                   .fix = "resume the job with the version that started it"});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(JournalOptions options,
                                                       std::vector<core::Record>* records) {
  std::unique_ptr<Journal> journal(new Journal(std::move(options)));
  const std::string& path = journal->options_.path;
  RETURN_IF_ERROR(journal->Lock());
  const int result = sqlite3_open_v2(
      path.c_str(), &journal->db_,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
      nullptr);
  if (result != SQLITE_OK) return JournalError(journal->db_, path, result);
  sqlite3_extended_result_codes(journal->db_, 1);
  RETURN_IF_ERROR(journal->Prepare());
  ASSIGN_OR_RETURN(*records, ReadAllRows(journal->db_, path));
  return journal;
}

// The kernel releases the lock when the process ends in any way.
absl::Status Journal::Lock() {
  const std::string path = options_.path + ".lock";
  lock_fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_fd_ < 0) return CannotOpen(options_.path, errno);
  RETURN_IF_ERROR(CheckFileSystem(lock_fd_, options_.path));
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = std::to_string(getpid()) + "\n";
    if (ftruncate(lock_fd_, 0) != 0 ||
        pwrite(lock_fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
      return absl::OkStatus();  // for people only: a full disk must not stop a master
    }
    return absl::OkStatus();
  }
  if (errno != EWOULDBLOCK) return CannotOpen(options_.path, errno);
  char holder[32] = {};
  const ssize_t size = pread(lock_fd_, holder, sizeof(holder) - 1, 0);
  const std::string pid(holder, size > 1 ? static_cast<size_t>(size) - 1 : 0);
  return ToStatus(absl::StatusCode::kFailedPrecondition,
                  {.code = "PL-E035",
                   .what = "another master holds the journal",
                   .where = options_.path,
                   .why = "process " + pid + " is alive and has it open",
                   .fix = "paceline status"});
}

absl::Status Journal::Prepare() {
  const std::string& path = options_.path;
  sqlite3_busy_timeout(db_, 5000);  // a command that reads the file locks it for milliseconds
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA wal_autocheckpoint = 1000"));
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA cache_size = -4096"));
  ASSIGN_OR_RETURN(const int version, SchemaOf(db_, path));
  RETURN_IF_ERROR(CheckSchema(version, path));
  if (version == 0) RETURN_IF_ERROR(Execute(db_, path, kCreate));
  const int result =
      sqlite3_prepare_v3(db_, kInsert, -1, SQLITE_PREPARE_PERSISTENT, &insert_, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : JournalError(db_, path, result);
}

Journal::~Journal() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
  sqlite3_finalize(insert_);
  sqlite3_close(db_);
  if (lock_fd_ >= 0) close(lock_fd_);
}

void Journal::Start(Sink sink) {
  CHECK(!worker_.joinable(), "one worker");
  sink_ = std::move(sink);
  worker_ = std::thread([this] { Work(); });
}

void Journal::Append(std::vector<core::Record> records) {
  {
    const std::lock_guard lock(mutex_);
    for (core::Record& record : records) appended_.push_back(std::move(record));
  }
  changed_.notify_all();
}

void Journal::Read(uint64_t request, RecordSeq from, uint32_t count_max) {
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back({request, from, count_max});
  }
  changed_.notify_all();
}

absl::Status Journal::Insert(const core::Record& record) {
  const std::string_view kind = core::FactName(record.fact);
  const std::string causes = EncodeCauses(record.causes);
  const std::string payload = wire::EncodeFact(record.fact);
  sqlite3_reset(insert_);
  sqlite3_bind_int64(insert_, 1, static_cast<int64_t>(record.seq.value()));
  sqlite3_bind_int64(insert_, 2, record.at.nanoseconds());
  sqlite3_bind_int64(insert_, 3, Clock::WallNow().nanoseconds());
  sqlite3_bind_text(insert_, 4, kind.data(), static_cast<int>(kind.size()), SQLITE_STATIC);
  sqlite3_bind_text(insert_, 5, causes.data(), static_cast<int>(causes.size()), SQLITE_STATIC);
  sqlite3_bind_blob(insert_, 6, payload.data(), static_cast<int>(payload.size()), SQLITE_STATIC);
  const int result = sqlite3_step(insert_);
  sqlite3_reset(insert_);
  sqlite3_clear_bindings(insert_);
  return result == SQLITE_DONE ? absl::OkStatus() : JournalError(db_, options_.path, result);
}

absl::Status Journal::Commit(const std::vector<core::Record>& batch) {
  if (options_.pages_max) {
    const std::string limit = "PRAGMA max_page_count = " + std::to_string(options_.pages_max());
    RETURN_IF_ERROR(Execute(db_, options_.path, limit.c_str()));
  }
  RETURN_IF_ERROR(Execute(db_, options_.path, "BEGIN IMMEDIATE"));
  absl::Status status;
  for (const core::Record& record : batch) {
    status = Insert(record);
    if (!status.ok()) break;
  }
  if (status.ok()) status = Execute(db_, options_.path, "COMMIT");
  // SQLite rolls back some errors by itself; a second rollback is then a harmless error.
  if (!status.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

bool Journal::WaitForWork(std::unique_lock<std::mutex>* lock) {
  const auto has_work = [&] { return is_ending_ || !appended_.empty() || !reads_.empty(); };
  if (!is_failing_) {
    changed_.wait(*lock, has_work);
  } else {
    changed_.wait_for(*lock, std::chrono::nanoseconds(options_.retry_after.nanoseconds()),
                      [&] { return is_ending_ || !reads_.empty(); });
  }
  return !is_ending_ || !appended_.empty();
}

void Journal::CommitPending(std::unique_lock<std::mutex>* lock) {
  std::vector<core::Record> batch = std::exchange(appended_, {});
  lock->unlock();
  const absl::Status status = Commit(batch);
  if (status.ok()) {
    sink_(RecordsDurable{batch.back().seq});
  } else {
    sink_(JournalFailed{std::string(Text(status))});
  }
  lock->lock();
  is_failing_ = !status.ok();
  if (status.ok()) return;
  for (core::Record& record : appended_) batch.push_back(std::move(record));
  appended_ = std::move(batch);
}

void Journal::Work() {
  std::unique_lock lock(mutex_);
  while (WaitForWork(&lock)) {
    while (!reads_.empty()) {
      const ReadOrder order = reads_.front();
      reads_.pop_front();
      lock.unlock();
      auto rows = ReadRows(db_, options_.path, order.from, order.count_max);
      sink_(RecordsRead{order.request, rows.status(),
                        rows.ok() ? *std::move(rows) : std::vector<core::Record>()});
      lock.lock();
    }
    if (!appended_.empty()) CommitPending(&lock);
    if (is_ending_ && is_failing_) return;
  }
}

absl::StatusOr<std::vector<core::Record>> ReadJournal(const std::string& path) {
  sqlite3* db = nullptr;
  const int result =
      sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> closer(db, &sqlite3_close);
  if (result != SQLITE_OK) {
    return MakeStatus(
        result == SQLITE_CANTOPEN ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
        path + ": " + sqlite3_errstr(result));
  }
  sqlite3_busy_timeout(db, 2000);
  RETURN_IF_ERROR(Execute(db, path, "PRAGMA query_only = 1"));
  ASSIGN_OR_RETURN(const int version, SchemaOf(db, path));
  RETURN_IF_ERROR(CheckSchema(version, path));
  if (version == 0) return std::vector<core::Record>();
  return ReadAllRows(db, path);
}

}  // namespace paceline::master
