#include "paceline/master/lease_journal.h"

#include <chrono>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/master/clock.h"
#include "paceline/master/journal_file.h"
#include "paceline/model/problem.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

constexpr int kSchema = 1;
constexpr char kCreateTables[] = R"(BEGIN;
CREATE TABLE facts(seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kind INTEGER NOT NULL,
  data_set INTEGER NOT NULL, worker INTEGER NOT NULL, incarnation INTEGER NOT NULL,
  lease INTEGER NOT NULL, first INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE summary(seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kind INTEGER NOT NULL,
  data_set INTEGER NOT NULL, worker INTEGER NOT NULL, incarnation INTEGER NOT NULL,
  lease INTEGER NOT NULL, first INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE folded(seq INTEGER NOT NULL);
INSERT INTO folded VALUES(0);
PRAGMA user_version = 1;
COMMIT;)";
constexpr char kInsertFact[] = "INSERT INTO facts VALUES(?,?,?,?,?,?,?,?,?,?)";
constexpr char kInsertSummary[] = "INSERT INTO summary VALUES(?,?,?,?,?,?,?,?,?,?)";

using Statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;
using Database = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

absl::StatusOr<Statement> PrepareSql(sqlite3* db, const std::string& path, const char* sql) {
  sqlite3_stmt* made = nullptr;
  const int result = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  if (result != SQLITE_OK) return JournalError(db, path, result);
  return Statement(made, &sqlite3_finalize);
}

// The first column of the first row.
absl::StatusOr<uint64_t> Number(sqlite3* db, const std::string& path, const char* sql) {
  ASSIGN_OR_RETURN(const Statement query, PrepareSql(db, path, sql));
  const int result = sqlite3_step(query.get());
  if (result != SQLITE_ROW) return JournalError(db, path, result);
  return static_cast<uint64_t>(sqlite3_column_int64(query.get(), 0));
}

StoredFact FactOf(sqlite3_stmt* row) {
  const auto number = [row](int column) {
    return static_cast<uint64_t>(sqlite3_column_int64(row, column));
  };
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, 9));
  return {.seq = number(0),
          .at = Instant::FromNanoseconds(sqlite3_column_int64(row, 1)),
          .fact = {.kind = static_cast<LeaseFact::Kind>(number(2)),
                   .set = static_cast<uint32_t>(number(3)),
                   .worker = {.worker = number(4), .incarnation = number(5)},
                   .lease = number(6),
                   .begin = number(7),
                   .end = number(8),
                   .text = text == nullptr ? "" : text}};
}

// True if the fact is well-formed enough to fold.
bool IsFact(const LeaseFact& fact) {
  const auto kind = static_cast<uint8_t>(fact.kind);
  const bool is_known = kind >= 1 && kind <= static_cast<uint8_t>(LeaseFact::Kind::kBlamed);
  const bool is_range =
      fact.kind == LeaseFact::Kind::kAcked || fact.kind == LeaseFact::Kind::kDone ||
      fact.kind == LeaseFact::Kind::kQuarantined || fact.kind == LeaseFact::Kind::kBlamed;
  return is_known && fact.end <= kSamplesMax && (!is_range || fact.begin < fact.end);
}

absl::Status Each(sqlite3* db, const std::string& path, const std::string& sql,
                  const std::function<void(const StoredFact&)>& use) {
  ASSIGN_OR_RETURN(const Statement query, PrepareSql(db, path, sql.c_str()));
  int result = SQLITE_DONE;
  while ((result = sqlite3_step(query.get())) == SQLITE_ROW) {
    const StoredFact fact = FactOf(query.get());
    if (!IsFact(fact.fact)) return JournalDamaged(path, Concat("row ", fact.seq, " is no fact"));
    use(fact);
  }
  return result == SQLITE_DONE ? absl::OkStatus() : JournalError(db, path, result);
}

absl::Status ReadAll(sqlite3* db, const std::string& path, StoredLeases* stored) {
  ASSIGN_OR_RETURN(const uint64_t folded, Number(db, path, "SELECT seq FROM folded"));
  const auto into = [](std::vector<LeaseFact>* facts) {
    return [facts](const StoredFact& one) { facts->push_back(one.fact); };
  };
  const uint64_t recent =
      folded > LeaseJournal::kRecentFacts ? folded - LeaseJournal::kRecentFacts : 0;
  RETURN_IF_ERROR(Each(db, path, "SELECT * FROM summary ORDER BY seq", into(&stored->summary)));
  RETURN_IF_ERROR(Each(
      db, path,
      Concat("SELECT * FROM facts WHERE seq > ", recent, " AND seq <= ", folded, " ORDER BY seq"),
      into(&stored->before)));
  return Each(db, path, Concat("SELECT * FROM facts WHERE seq > ", folded, " ORDER BY seq"),
              into(&stored->facts));
}

absl::Status CheckLeaseSchema(uint64_t version, const std::string& path) {
  if (version <= kSchema) return absl::OkStatus();
  return ToStatus(absl::StatusCode::kFailedPrecondition,
                  {.code = "PL-E036",
                   .what = "the journal was written by another version",
                   .where = path,
                   .why = Concat("its schema is ", version, ", this program knows ", kSchema),
                   .fix = "resume the job with the version that started it"});
}

absl::StatusOr<Database> OpenToRead(const std::string& path) {
  sqlite3* raw = nullptr;
  const int result =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
  Database db(raw, &sqlite3_close);
  if (result != SQLITE_OK) {
    return MakeStatus(
        result == SQLITE_CANTOPEN ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
        path + ": " + sqlite3_errstr(result));
  }
  sqlite3_busy_timeout(db.get(), 2000);
  RETURN_IF_ERROR(Execute(db.get(), path, "PRAGMA query_only = 1"));
  ASSIGN_OR_RETURN(const uint64_t version, Number(db.get(), path, "PRAGMA user_version"));
  RETURN_IF_ERROR(CheckLeaseSchema(version, path));
  if (version == 0) return absl::NotFoundError(path + ": nothing was leased");
  return db;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseJournal>> LeaseJournal::Open(Options options,
                                                                 StoredLeases* stored) {
  std::unique_ptr<LeaseJournal> journal(new LeaseJournal(std::move(options)));
  const std::string& path = journal->options_.path;
  const int result = sqlite3_open_v2(
      path.c_str(), &journal->db_,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
      nullptr);
  if (result != SQLITE_OK) return JournalError(journal->db_, path, result);
  sqlite3_extended_result_codes(journal->db_, 1);
  RETURN_IF_ERROR(journal->Prepare());
  RETURN_IF_ERROR(ReadAll(journal->db_, path, stored));
  return journal;
}

absl::Status LeaseJournal::Prepare() {
  const std::string& path = options_.path;
  sqlite3_busy_timeout(db_, 5000);  // a command that reads the file locks it for milliseconds
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(Execute(db_, path, "PRAGMA wal_autocheckpoint = 4000"));
  ASSIGN_OR_RETURN(const uint64_t version, Number(db_, path, "PRAGMA user_version"));
  RETURN_IF_ERROR(CheckLeaseSchema(version, path));
  if (version == 0) RETURN_IF_ERROR(Execute(db_, path, kCreateTables));
  ASSIGN_OR_RETURN(Statement insert, PrepareSql(db_, path, kInsertFact));
  insert_ = insert.release();
  ASSIGN_OR_RETURN(Statement insert_summary, PrepareSql(db_, path, kInsertSummary));
  insert_summary_ = insert_summary.release();
  ASSIGN_OR_RETURN(const uint64_t last,
                   Number(db_, path, "SELECT coalesce(max(seq), 0) FROM facts"));
  ASSIGN_OR_RETURN(const uint64_t folded, Number(db_, path, "SELECT seq FROM folded"));
  last_seq_ = std::max(last, folded);
  return absl::OkStatus();
}

LeaseJournal::~LeaseJournal() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
  sqlite3_finalize(insert_);
  sqlite3_finalize(insert_summary_);
  sqlite3_close(db_);
}

absl::Status LeaseJournal::Insert(sqlite3_stmt* insert, uint64_t number, const LeaseFact& fact) {
  int column = 0;
  const auto bind = [&](uint64_t value) {
    sqlite3_bind_int64(insert, ++column, static_cast<int64_t>(value));
  };
  bind(number);
  bind(static_cast<uint64_t>(Clock::WallNow().nanoseconds()));
  bind(static_cast<uint64_t>(fact.kind));
  bind(fact.set);
  bind(fact.worker.worker);
  bind(fact.worker.incarnation);
  bind(fact.lease);
  bind(fact.begin);
  bind(fact.end);
  sqlite3_bind_text(insert, ++column, fact.text.data(), static_cast<int>(fact.text.size()),
                    SQLITE_STATIC);
  const int result = sqlite3_step(insert);
  sqlite3_reset(insert);
  return result == SQLITE_DONE ? absl::OkStatus() : JournalError(db_, options_.path, result);
}

absl::Status LeaseJournal::Commit(const std::vector<LeaseFact>& facts) {
  if (options_.refuses && options_.refuses()) {
    return JournalError(nullptr, options_.path, SQLITE_FULL);
  }
  RETURN_IF_ERROR(Execute(db_, options_.path, "BEGIN IMMEDIATE"));
  absl::Status status;
  uint64_t seq = last_seq_;
  for (const LeaseFact& fact : facts) {
    status = Insert(insert_, ++seq, fact);
    if (!status.ok()) break;
  }
  if (status.ok()) status = Execute(db_, options_.path, "COMMIT");
  // SQLite rolls back some errors by itself; a second rollback is then a harmless error.
  if (!status.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  if (status.ok()) {
    last_seq_ = seq;
    committed_ += facts.size();
  }
  return status;
}

// A failed summary is skipped; a later one replaces it.
absl::Status LeaseJournal::CommitSummary(const std::vector<LeaseFact>& summary, uint64_t until) {
  const std::string& path = options_.path;
  RETURN_IF_ERROR(Execute(db_, path, "BEGIN IMMEDIATE"));
  absl::Status status = Execute(db_, path, "DELETE FROM summary");
  uint64_t number = 0;
  for (const LeaseFact& fact : summary) {
    if (status.ok()) status = Insert(insert_summary_, ++number, fact);
  }
  const uint64_t folded = last_seq_ - (committed_ - until);
  const uint64_t keep = std::max(options_.history_max, kRecentFacts);
  std::string sql = Concat("UPDATE folded SET seq = ", folded);
  if (folded > keep) paceline::Append(&sql, "; DELETE FROM facts WHERE seq <= ", folded - keep);
  if (status.ok()) status = Execute(db_, path, sql.c_str());
  if (status.ok()) status = Execute(db_, path, "COMMIT");
  if (!status.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

absl::Status LeaseJournal::AppendNow(const std::vector<LeaseFact>& facts) {
  CHECK(!worker_.joinable(), "before the worker");
  accepted_ += facts.size();
  return Commit(facts);
}

void LeaseJournal::Start(Listener listener) {
  CHECK(!worker_.joinable(), "one worker");
  listener_ = std::move(listener);
  worker_ = std::thread([this] { Work(); });
}

void LeaseJournal::Append(std::vector<LeaseFact> facts) {
  {
    const std::lock_guard lock(mutex_);
    accepted_ += facts.size();
    for (LeaseFact& fact : facts) appended_.push_back(std::move(fact));
  }
  changed_.notify_all();
}

void LeaseJournal::Summarize(std::vector<LeaseFact> summary) {
  {
    const std::lock_guard lock(mutex_);
    summary_ = {accepted_, std::move(summary)};
  }
  changed_.notify_all();
}

void LeaseJournal::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_work = [this] { return is_ending_ || !appended_.empty() || summary_; };
    if (!is_failing_) {
      changed_.wait(lock, has_work);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(options_.retry_after.nanoseconds()),
                        [this] { return is_ending_; });
    }
    const bool is_last = is_ending_;
    std::vector<LeaseFact> batch = std::exchange(appended_, {});
    const auto summary = std::exchange(summary_, std::nullopt);
    lock.unlock();
    const absl::Status status = batch.empty() ? absl::OkStatus() : Commit(batch);
    if (!status.ok()) {
      listener_.failed(std::string(Text(status)));
    } else {
      if (!batch.empty()) listener_.durable(committed_);
      if (summary) CommitSummary(summary->second, summary->first).IgnoreError();
    }
    lock.lock();
    is_failing_ = !status.ok();
    if (!status.ok()) {
      for (LeaseFact& fact : appended_) batch.push_back(std::move(fact));
      appended_ = std::move(batch);
    }
    if (is_last && (appended_.empty() || is_failing_)) return;
  }
}

absl::StatusOr<StoredLeases> ReadLeases(const std::string& path) {
  ASSIGN_OR_RETURN(const Database db, OpenToRead(path));
  StoredLeases stored;
  RETURN_IF_ERROR(ReadAll(db.get(), path, &stored));
  return stored;
}

absl::Status ReadLeaseHistory(const std::string& path,
                              const std::function<void(const StoredFact&)>& each) {
  ASSIGN_OR_RETURN(const Database db, OpenToRead(path));
  return Each(db.get(), path, "SELECT * FROM facts ORDER BY seq", each);
}

}  // namespace paceline::master
