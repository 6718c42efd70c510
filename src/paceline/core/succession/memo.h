#pragma once

// The part of a job's state that outlives the loss of all copies of its journal. It has the budgets
// for failures, which would start full again without it, the hosts that are excluded from the job,
// and how the job ended, so that an ended job is not run again. The platform keeps this memo (at
// most 2 KiB as text) and gives it to the next term's master. The memo has nothing about nodes,
// because each node reports what it runs.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paceline::core {

struct JobState;

struct Memo {
  static constexpr size_t kTextMax = 300;    // bytes of each text
  static constexpr size_t kIndexesMax = 64;  // in `replaced`, lowest first
  static constexpr size_t kHostsMax = 8;     // in `excluded`

  uint32_t charged_failures = 0;
  uint32_t failures_without_progress = 0;
  uint32_t same_failure_count = 0;
  std::string last_fingerprint;
  std::string last_headline;
  int64_t last_failure_step = -1;
  int64_t step_max = -1;                  // a higher step refills the budgets; -1: they are full
  uint64_t worlds = 0;                    // the number of the newest world
  std::map<uint32_t, uint32_t> replaced;  // times without progress, by a node's index
  std::vector<std::string> excluded;      // hosts that get no node of the job, oldest first
  std::optional<int> exit_code;           // of a job that has ended
  std::string final_reason;
  uint32_t chosen_nodes = 0;      // the chosen size; 0: none
  bool is_size_measured = false;  // by measurement; false: by a user
  bool operator==(const Memo&) const = default;
};

Memo MemoOf(const JobState& state);

// Puts the memo into the state, except the end of the job, which the caller handles.
void Apply(const Memo& memo, JobState* state);

}  // namespace paceline::core
