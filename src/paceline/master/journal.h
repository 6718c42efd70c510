#pragma once

// The job's records on disk, in one SQLite file: docs/formats/journal.md.
//
// A worker thread owns the database. It commits whatever has been appended meanwhile as one
// transaction (group commit) and tells how far the disk is. When the disk refuses, it says so and
// tries again every second, for ever: nothing is dropped, nothing is acknowledged early.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"
#include "paceline/core/record.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline::master {

inline constexpr int kJournalSchema = 1;

struct RecordsDurable {
  RecordSeq last;  // this record and all before it are on the disk
};
struct JournalFailed {
  std::string why;  // one line; tried again in JournalOptions::retry_after
};
struct RecordsRead {
  uint64_t request = 0;
  absl::Status status;
  std::vector<core::Record> records;
};
using JournalEvent = std::variant<RecordsDurable, JournalFailed, RecordsRead>;

struct JournalOptions {
  std::string path;
  Duration retry_after = Duration::Seconds(1);
  // For tests: as if the disk were full beyond; 0 = no bound. Asked before each commit.
  std::function<int64_t()> pages_max;
};

class Journal {
 public:
  // Runs on the worker's thread.
  using Sink = std::function<void(JournalEvent)>;

  // Opens or creates, and reads everything: `records` has what is durable.
  // Problems: PL-E032 (cannot be written), PL-E033 (no working locks), PL-E034 (damaged:
  // DATA_LOSS), PL-E035 (another master holds it: FAILED_PRECONDITION).
  static absl::StatusOr<std::unique_ptr<Journal>> Open(JournalOptions options,
                                                       std::vector<core::Record>* records);
  // What is appended is committed first, unless the disk refuses it.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Starts the worker. Once, before the first Append.
  void Start(Sink sink);

  // Any thread, never blocks. Records come in order of seq, without gaps.
  void Append(std::vector<core::Record> records);

  // Answers with RecordsRead: up to `count_max` durable records from `from` on.
  void Read(uint64_t request, RecordSeq from, uint32_t count_max);

 private:
  struct ReadOrder {
    uint64_t request = 0;
    RecordSeq from;
    uint32_t count_max = 0;
  };
  explicit Journal(JournalOptions options) : options_(std::move(options)) {}
  absl::Status Lock();
  absl::Status Prepare();
  absl::Status Commit(const std::vector<core::Record>& batch);
  absl::Status Insert(const core::Record& record);
  void Work();
  bool WaitForWork(std::unique_lock<std::mutex>* lock);
  void CommitPending(std::unique_lock<std::mutex>* lock);

  const JournalOptions options_;
  Sink sink_;
  int lock_fd_ = -1;
  sqlite3* db_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<core::Record> appended_;
  std::deque<ReadOrder> reads_;
  bool is_failing_ = false;
  bool is_ending_ = false;
  std::thread worker_;
};

// The durable records of a journal that nobody, or somebody else, has open; for commands that read
// a job without its master. NOT_FOUND, DATA_LOSS.
absl::StatusOr<std::vector<core::Record>> ReadJournal(const std::string& path);

}  // namespace paceline::master
