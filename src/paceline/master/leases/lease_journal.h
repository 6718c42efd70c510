#pragma once

// The facts of the job's leases, in an SQLite file of their own: docs/formats/data_db.md. Every
// acknowledgement is a fact, tens of thousands a second. So facts are not in the job's journal,
// whose records are decisions that people read.
//
// A worker thread commits all facts appended meanwhile in one transaction. From time to time a
// summary of the state replaces the facts that a start has to fold. Earlier facts stay for a while,
// as history for `paceline data trace`.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/master/journal/journal_file.h"

namespace paceline::master {

struct StoredFact {
  uint64_t seq = 0;
  Instant at;  // ns since the Unix epoch
  LeaseFact fact;
};

struct StoredLeases {
  std::vector<LeaseFact> summary;  // the state up to a fact
  std::vector<LeaseFact>
      before;  // the last earlier facts, for leases that workers may still present
  std::vector<LeaseFact> facts;  // later facts
};

class LeaseJournal {
 public:
  static constexpr uint64_t kRecentFacts = 20'000;
  static constexpr uint64_t kHistoryFacts = 5'000'000;

  struct Options {
    std::string path;
    Duration retry_after = Duration::Seconds(1);
    uint64_t history_max = kHistoryFacts;
    // For tests: if it returns true, this commit fails as on a full disk.
    std::function<bool()> refuses = {};
  };
  struct Listener {                               // called on the worker's thread
    std::function<void(uint64_t count)> durable;  // the first `count` facts since Open are durable
    std::function<void(const std::string& why)> failed;
  };

  // Opens or creates the file and reads it. Problems as in Journal::Open. The caller has the lock
  // of the job's journal, so there is no other master.
  static absl::StatusOr<std::unique_ptr<LeaseJournal>> Open(Options options, StoredLeases* stored);
  // First commits appended facts, unless the disk refuses.
  ~LeaseJournal();
  LeaseJournal(const LeaseJournal&) = delete;
  LeaseJournal& operator=(const LeaseJournal&) = delete;

  // Call before Start. The facts are durable on return.
  absl::Status AppendNow(const std::vector<LeaseFact>& facts);
  void Start(Listener listener);

  // Any thread; never blocks.
  void Append(std::vector<LeaseFact> facts);
  // The state after all facts appended so far.
  void Summarize(std::vector<LeaseFact> summary);

 private:
  // Each master writes a fact when it starts, also in a job that leases nothing.
  static constexpr uint64_t kRoomBytes = 64 << 10;

  explicit LeaseJournal(Options options)
      : options_(std::move(options)), room_(options_.path, kRoomBytes) {}
  absl::Status Insert(sqlite3_stmt* insert, uint64_t number, const LeaseFact& fact);
  absl::Status Commit(const std::vector<LeaseFact>& facts);
  absl::Status CommitSummary(const std::vector<LeaseFact>& summary, uint64_t until);
  void Work();

  const Options options_;
  Listener listener_;
  Database db_;
  Statement insert_;
  Statement insert_summary_;
  KeptRoom room_;
  uint64_t last_seq_ = 0;   // durable; used by the worker
  uint64_t committed_ = 0;  // since Open

  std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable changed_;
  std::vector<LeaseFact> appended_;
  uint64_t accepted_ = 0;                                               // since Open
  std::optional<std::pair<uint64_t, std::vector<LeaseFact>>> summary_;  // number of facts, summary
  bool is_failing_ = false;
  bool is_ending_ = false;
  std::thread worker_;
};

// For commands: the facts to fold, or all that still exist. NOT_FOUND: the job never leased a data
// set.
absl::StatusOr<StoredLeases> ReadLeases(const std::string& path);
absl::Status ReadLeaseHistory(const std::string& path,
                              const std::function<void(const StoredFact&)>& each);

}  // namespace paceline::master
