#include "paceline/master/journal/journal.h"

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
#include "paceline/master/journal/journal_file.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(JournalOptions options,
                                                       std::vector<core::Record>* records) {
  std::unique_ptr<Journal> journal(new Journal(std::move(options)));
  const std::string& path = journal->options_.path;
  RETURN_IF_ERROR(journal->Lock());
  ASSIGN_OR_RETURN(journal->db_, OpenToWrite(path, kCreate, /*log_pages=*/1000));
  sqlite3* const db = journal->db_.get();
  RETURN_IF_ERROR(Execute(db, path, "PRAGMA cache_size = -4096"));
  ASSIGN_OR_RETURN(journal->insert_, PrepareSql(db, path, kInsert));
  ASSIGN_OR_RETURN(*records, ReadAllRows(db, path));
  journal->room_.Keep();
  return journal;
}

// The kernel releases the lock when the process ends in any way.
absl::Status Journal::Lock() {
  const std::string path = options_.path + ".lock";
  lock_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const int fd = lock_.get();
  if (fd < 0) return CannotOpen(options_.path, errno);
  RETURN_IF_ERROR(CheckFileSystem(fd, options_.path));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = std::to_string(getpid()) + "\n";
    // For people only: a full disk must not stop a master.
    (void)!(ftruncate(fd, 0) == 0 && pwrite(fd, pid.data(), pid.size(), 0) > 0);
    return absl::OkStatus();
  }
  if (errno != EWOULDBLOCK) return CannotOpen(options_.path, errno);
  char holder[32] = {};
  const ssize_t size = pread(fd, holder, sizeof(holder) - 1, 0);
  const std::string pid(holder, size > 1 ? static_cast<size_t>(size) - 1 : 0);
  return ToStatus(absl::StatusCode::kFailedPrecondition,
                  {.code = "PL-E035",
                   .what = "another master holds the journal",
                   .where = options_.path,
                   .why = "process " + pid + " is alive and has it open",
                   .fix = "paceline status"});
}

Journal::~Journal() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
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
  sqlite3_stmt* const row = insert_.get();
  sqlite3_reset(row);
  sqlite3_bind_int64(row, 1, static_cast<int64_t>(record.seq.value()));
  sqlite3_bind_int64(row, 2, record.at.nanoseconds());
  sqlite3_bind_int64(row, 3, Clock::WallNow().nanoseconds());
  sqlite3_bind_text(row, 4, kind.data(), static_cast<int>(kind.size()), SQLITE_STATIC);
  sqlite3_bind_text(row, 5, causes.data(), static_cast<int>(causes.size()), SQLITE_STATIC);
  sqlite3_bind_blob(row, 6, payload.data(), static_cast<int>(payload.size()), SQLITE_STATIC);
  const int result = sqlite3_step(row);
  sqlite3_reset(row);
  sqlite3_clear_bindings(row);
  return result == SQLITE_DONE ? absl::OkStatus() : JournalError(db_.get(), options_.path, result);
}

absl::Status Journal::Commit(const std::vector<core::Record>& batch) {
  if (options_.pages_max) {
    const std::string limit = "PRAGMA max_page_count = " + std::to_string(options_.pages_max());
    RETURN_IF_ERROR(Execute(db_.get(), options_.path, limit.c_str()));
  }
  return InTransaction(db_.get(), options_.path, [&] {
    absl::Status status;
    for (size_t i = 0; i < batch.size() && status.ok(); ++i) status = Insert(batch[i]);
    return status;
  });
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
    room_.Keep();
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
      auto rows = ReadRows(db_.get(), options_.path, order.from, order.count_max);
      sink_(RecordsRead{order.request, rows.status(),
                        rows.ok() ? *std::move(rows) : std::vector<core::Record>()});
      lock.lock();
    }
    if (!appended_.empty()) CommitPending(&lock);
    if (is_ending_ && is_failing_) return;
  }
}

absl::StatusOr<std::vector<core::Record>> ReadJournal(const std::string& path) {
  ASSIGN_OR_RETURN(const Database db, OpenToRead(path));
  if (db == nullptr) return std::vector<core::Record>();
  return ReadAllRows(db.get(), path);
}

absl::StatusOr<std::vector<core::Record>> ReadEndOfJournal(const std::string& path,
                                                           uint32_t count_max) {
  ASSIGN_OR_RETURN(const Database db, OpenToRead(path));
  if (db == nullptr) return std::vector<core::Record>();
  ASSIGN_OR_RETURN(const uint64_t last,
                   Number(db.get(), path, "SELECT coalesce(max(seq), 0) FROM records"));
  const RecordSeq from(last > count_max ? last - count_max + 1 : 1);
  return ReadRows(db.get(), path, from, count_max);
}

}  // namespace paceline::master
