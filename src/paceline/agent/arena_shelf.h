#pragma once

// The arenas of a job on this host: where they lie, which are there, what is in them, how much room
// is left for another, and their end.
//
//   /dev/shm/paceline-UID/JOB/NODE/rank-3.arena
//
// Every agent of the host looks at all of them: the memory of a node whose agent died is still the
// host's. Each writes only under the name of its own node.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "paceline/ckpt/arena.h"
#include "paceline/model/checkpoint.h"

namespace paceline::agent {

class ArenaShelf {
 public:
  struct Place {
    std::string node;
    uint32_t rank = 0;
    auto operator<=>(const Place&) const = default;
  };

  // `root` is made when the first arena is; `boot_id` as the agent reports it.
  ArenaShelf(std::string root, std::string job_id, std::string boot_id)
      : root_(std::move(root)), job_id_(std::move(job_id)), boot_id_(std::move(boot_id)) {}

  std::string PathOf(const Place& place) const;
  // Makes the folder for it.
  absl::Status Prepare(const Place& place);
  // How many slots an arena for images of that size may have, 3 or 2; 0: there is no room, and
  // `why` says of what.
  uint32_t SlotsFor(const Place& place, uint64_t image_bytes, std::string* why) const;

  // Opens what has come, closes what has gone or was made anew.
  void Refresh();
  // Null when there is none.
  std::shared_ptr<ckpt::Arena> Find(const Place& place) const;
  std::vector<MemoryImage> Images() const;

  // All arenas of the job on this host; whoever has one mapped keeps his memory.
  void RemoveAll();

  const std::string& job_id() const { return job_id_; }
  const std::string& boot_id() const { return boot_id_; }

 private:
  struct Open {
    uint64_t inode = 0;
    std::shared_ptr<ckpt::Arena> arena;  // owners: the shelf and the tasks that read from it
  };

  const std::string root_;
  const std::string job_id_;
  const std::string boot_id_;
  std::map<Place, Open> open_;
};

// /dev/shm/paceline-UID/JOB.
std::string ArenaRoot(const std::string& job_id);

}  // namespace paceline::agent
