#pragma once

// The job's records on disk, in one SQLite file: docs/formats/journal.md.
//
// A worker thread owns the database. It commits all records appended meanwhile in one transaction
// (group commit) and reports what is durable. If the disk refuses, it reports that and retries
// every second without limit: no record is dropped, and none is acknowledged early.

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
#include "paceline/base/fd.h"
#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/master/journal/journal_file.h"

namespace paceline::master {

struct RecordsDurable {
  RecordSeq last;  // this record and all before it are durable
};
struct JournalFailed {
  std::string why;  // one line; the commit is retried after JournalOptions::retry_after
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
  // For tests: the number of pages at which the disk counts as full; 0: no limit. Called before
  // each commit.
  std::function<int64_t()> pages_max;
};

class Journal {
 public:
  // Called on the worker's thread.
  using Sink = std::function<void(JournalEvent)>;

  // Opens or creates the file and reads the durable records into `records`. Problems: PL-E032
  // (cannot be written), PL-E033 (no working locks), PL-E034 (damaged: DATA_LOSS), PL-E035 (another
  // master has it: FAILED_PRECONDITION).
  static absl::StatusOr<std::unique_ptr<Journal>> Open(JournalOptions options,
                                                       std::vector<core::Record>* records);
  // The destructor commits appended records first, unless the disk refuses.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Starts the worker. Once, before the first Append.
  void Start(Sink sink);

  // Any thread; never blocks. Records must come in order of seq, without gaps.
  void Append(std::vector<core::Record> records);

  // Answers with RecordsRead: up to `count_max` durable records from `from` on.
  void Read(uint64_t request, RecordSeq from, uint32_t count_max);

 private:
  struct ReadOrder {
    uint64_t request = 0;
    RecordSeq from;
    uint32_t count_max = 0;
  };
  // Room for some dozens of records: of a new master, and of a failure.
  static constexpr uint64_t kRoomBytes = 256 << 10;

  explicit Journal(JournalOptions options)
      : options_(std::move(options)), room_(options_.path, kRoomBytes) {}
  absl::Status Lock();
  absl::Status Commit(const std::vector<core::Record>& batch);
  absl::Status Insert(const core::Record& record);
  void Work();
  bool WaitForWork(std::unique_lock<std::mutex>* lock);
  void CommitPending(std::unique_lock<std::mutex>* lock);

  const JournalOptions options_;
  Sink sink_;
  Fd lock_;  // before db_, so that it is released last
  Database db_;
  Statement insert_;
  KeptRoom room_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<core::Record> appended_;
  std::deque<ReadOrder> reads_;
  bool is_failing_ = false;
  bool is_ending_ = false;
  std::thread worker_;
};

// The durable records of a journal, whether or not a master has it open; for commands that read a
// job. NOT_FOUND, DATA_LOSS.
absl::StatusOr<std::vector<core::Record>> ReadJournal(const std::string& path);

// The last `count_max` of them. Cheap for a long journal.
absl::StatusOr<std::vector<core::Record>> ReadEndOfJournal(const std::string& path,
                                                           uint32_t count_max);

}  // namespace paceline::master
