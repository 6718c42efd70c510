#include "paceline/master/leases/lease_journal.h"

#include <chrono>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/master/clock.h"
#include "paceline/master/journal/journal_file.h"
#include "paceline/model/problem.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

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
  const bool is_known = kind >= 1 && kind <= static_cast<uint8_t>(LeaseFact::Kind::kUndone);
  const bool is_range = fact.kind == LeaseFact::Kind::kAcked ||
                        fact.kind == LeaseFact::Kind::kDone ||
                        fact.kind == LeaseFact::Kind::kQuarantined ||
                        fact.kind == LeaseFact::Kind::kBlamed || fact.kind == LeaseFact::Kind::kGap;
  const bool is_found = fact.kind == LeaseFact::Kind::kFound;  // without records, perhaps
  return is_known && fact.end <= kSamplesMax && (!is_range || fact.begin < fact.end) &&
         (!is_found || fact.begin <= fact.end);
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

// NOT_FOUND: the job never leased a data set.
absl::StatusOr<Database> OpenLeases(const std::string& path) {
  ASSIGN_OR_RETURN(Database db, OpenToRead(path));
  if (db == nullptr) return absl::NotFoundError(path + ": no data was leased");
  return db;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseJournal>> LeaseJournal::Open(Options options,
                                                                 StoredLeases* stored) {
  std::unique_ptr<LeaseJournal> journal(new LeaseJournal(std::move(options)));
  const std::string& path = journal->options_.path;
  ASSIGN_OR_RETURN(journal->db_, OpenToWrite(path, kCreateTables, /*log_pages=*/4000));
  sqlite3* const db = journal->db_.get();
  ASSIGN_OR_RETURN(journal->insert_, PrepareSql(db, path, kInsertFact));
  ASSIGN_OR_RETURN(journal->insert_summary_, PrepareSql(db, path, kInsertSummary));
  ASSIGN_OR_RETURN(const uint64_t last,
                   Number(db, path, "SELECT coalesce(max(seq), 0) FROM facts"));
  ASSIGN_OR_RETURN(const uint64_t folded, Number(db, path, "SELECT seq FROM folded"));
  journal->last_seq_ = std::max(last, folded);
  RETURN_IF_ERROR(ReadAll(db, path, stored));
  return journal;
}

LeaseJournal::~LeaseJournal() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
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
  return result == SQLITE_DONE ? absl::OkStatus() : JournalError(db_.get(), options_.path, result);
}

absl::Status LeaseJournal::Commit(const std::vector<LeaseFact>& facts) {
  if (options_.refuses && options_.refuses()) {
    return JournalError(nullptr, options_.path, SQLITE_FULL);
  }
  uint64_t seq = last_seq_;
  RETURN_IF_ERROR(InTransaction(db_.get(), options_.path, [&] {
    absl::Status status;
    for (size_t i = 0; i < facts.size() && status.ok(); ++i) {
      status = Insert(insert_.get(), ++seq, facts[i]);
    }
    return status;
  }));
  last_seq_ = seq;
  committed_ += facts.size();
  room_.Keep();
  return absl::OkStatus();
}

// A failed summary is skipped; a later one replaces it. Until then all facts are kept.
absl::Status LeaseJournal::CommitSummary(const std::vector<LeaseFact>& summary, uint64_t until) {
  const uint64_t folded = last_seq_ - (committed_ - until);
  const uint64_t keep = std::max(options_.history_max, kRecentFacts);
  std::string sql = Concat("UPDATE folded SET seq = ", folded);
  if (folded > keep) paceline::Append(&sql, "; DELETE FROM facts WHERE seq <= ", folded - keep);
  return InTransaction(db_.get(), options_.path, [&] {
    absl::Status status = Execute(db_.get(), options_.path, "DELETE FROM summary");
    for (size_t i = 0; i < summary.size() && status.ok(); ++i) {
      status = Insert(insert_summary_.get(), i + 1, summary[i]);
    }
    return status.ok() ? Execute(db_.get(), options_.path, sql.c_str()) : status;
  });
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
      if (summary) {
        const absl::Status kept = CommitSummary(summary->second, summary->first);
        if (!kept.ok()) LogWarning("lease_summary_failed", {{"why", kept}});
      }
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
  ASSIGN_OR_RETURN(const Database db, OpenLeases(path));
  StoredLeases stored;
  RETURN_IF_ERROR(ReadAll(db.get(), path, &stored));
  return stored;
}

absl::Status ReadLeaseHistory(const std::string& path,
                              const std::function<void(const StoredFact&)>& each) {
  ASSIGN_OR_RETURN(const Database db, OpenLeases(path));
  return Each(db.get(), path, "SELECT * FROM facts ORDER BY seq", each);
}

}  // namespace paceline::master
