#pragma once

// Who saves to a directory of checkpoints. It stands in the directory; docs/formats/directory.md.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

// A store begins its refusal with these words if another job saves to the directory now. Whoever
// reads them does not try the write again.
inline constexpr std::string_view kRefusedForGood = "the directory is another job's now: ";

// A whole checkpoint of another job.
struct ForeignCheckpoint {
  std::string name;
  std::string job_id;
  auto operator<=>(const ForeignCheckpoint&) const = default;
};

struct DirectoryClaim {
  std::string job_id;
  // The process that renews the claim: an agent or a keeper.
  std::string host;
  std::string boot_id;
  uint64_t pid_space = 0;  // inode of its pid namespace
  int64_t pid = 0;
  uint64_t start_ticks = 0;  // when it was started, after boot
  std::string since;         // when that process claimed the directory, for people
  uint64_t beat = 0;         // goes up with each renewal

  bool IsBySameProcess(const DirectoryClaim& other) const {
    return job_id == other.job_id && boot_id == other.boot_id && pid_space == other.pid_space &&
           pid == other.pid && start_ticks == other.start_ticks;
  }
  bool operator==(const DirectoryClaim&) const = default;
};

}  // namespace paceline
