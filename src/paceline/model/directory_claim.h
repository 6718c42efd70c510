#pragma once

// The claim on a directory of checkpoints, a file in the directory; docs/formats/directory.md.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

// A store's refusal begins with these words if another job saves to the directory now. The write is
// not retried then.
inline constexpr std::string_view kRefusedForGood = "the directory is another job's now: ";

// A complete checkpoint of another job.
struct ForeignCheckpoint {
  std::string name;
  std::string job_id;
  auto operator<=>(const ForeignCheckpoint&) const = default;
};

struct DirectoryClaim {
  std::string job_id;
  // The term of the master to which the claiming process listens. If two masters of one job claim
  // the directory, the one of the higher term has it.
  uint64_t term = 0;
  // The process that renews the claim: an agent or a keeper.
  std::string host;
  std::string boot_id;
  uint64_t pid_space = 0;  // inode of its pid namespace
  int64_t pid = 0;
  uint64_t start_ticks = 0;  // its start, in ticks after boot
  std::string since;         // when that process claimed the directory, for people
  uint64_t beat = 0;         // incremented by each renewal

  bool IsBySameProcess(const DirectoryClaim& other) const {
    return job_id == other.job_id && boot_id == other.boot_id && pid_space == other.pid_space &&
           pid == other.pid && start_ticks == other.start_ticks;
  }
  bool operator==(const DirectoryClaim&) const = default;
};

}  // namespace paceline
