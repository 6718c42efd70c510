#pragma once

// The file with what earlier runs measured: history.db, an SQLite database that the masters of one
// user share, or those of a team on a shared directory. docs/formats/history.md.
//
// It only advises, so every error is one that the caller can tell and go on from.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/master/journal/journal_file.h"
#include "paceline/model/job_history.h"

namespace paceline::master {

class HistoryFile {
 public:
  static constexpr uint32_t kRunsMax = 2'000;  // the newest are kept

  // Makes the folder and the file, for this user alone, if they are missing.
  static absl::StatusOr<HistoryFile> Open(const std::string& folder);
  // NOT_FOUND: there is no file yet.
  static absl::StatusOr<HistoryFile> OpenExisting(const std::string& folder);

  // Replaces what was known of that run.
  absl::Status Put(const JobHistory& history);
  // The newest runs first, at most `count_max`; of one signature, or of all ("").
  absl::StatusOr<std::vector<JobHistory>> Newest(const std::string& signature, uint32_t count_max);
  // Removes the runs of that name, or all (""). Returns how many there were.
  absl::StatusOr<uint64_t> Forget(const std::string& name);

  const std::string& path() const { return path_; }

 private:
  HistoryFile(std::string path, Database db) : path_(std::move(path)), db_(std::move(db)) {}
  static absl::StatusOr<HistoryFile> OpenAt(const std::string& folder, bool may_make);

  std::string path_;
  Database db_;
};

}  // namespace paceline::master
