#pragma once

// The arenas of a job on this host: where they lie, which are there, what is in them, how much room
// is left for another, and their end.
//
//   /dev/shm/paceline-UID/JOB/NODE/rank-3.arena   what rank 3 saved there
//                                  rank-5.copy    what rank 5 saved on another host
//   /var/tmp/paceline-UID/JOB/…                     the same on a disk, of ranks for which there is
//                                                   no room in memory; never copies
//
// Every agent of the host looks at all of them: the memory of a node whose agent died is still the
// host's. Each writes only under the name of its own node, and copies alone.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/model/checkpoint.h"

namespace paceline::agent {

// An image that does not change as long as somebody holds this.
struct ImageClaim {
  std::shared_ptr<ckpt::Arena> arena;  // owners: this claim and the shelf
  ArenaImage image;
};

class ArenaShelf {
 public:
  struct Place {
    std::string node;
    uint32_t rank = 0;
    bool is_copy = false;
    auto operator<=>(const Place&) const = default;
  };

  // Made when the first arena is.
  struct Roots {
    std::string memory;     // on a tmpfs
    std::string disk = {};  // "": there is no such place
  };
  // `boot_id` as the agent reports it.
  ArenaShelf(Roots roots, std::string job_id, std::string boot_id)
      : roots_(std::move(roots)), job_id_(std::move(job_id)), boot_id_(std::move(boot_id)) {}

  // Where it is; where it would be in memory when there is none.
  std::string PathOf(const Place& place) const;
  // Makes the folder for a copy, in memory.
  absl::Status Prepare(const Place& place);
  // What an arena for images of that size may have: 3 slots, or 2, and as many copies of them on
  // other hosts, whose images this host keeps in return; with copies, 4 slots, so that the step
  // that has its copies stays while the next one gets them. When there is not room for all, slots
  // go first, then copies, then memory: a disk keeps images without copies. `why` says what is
  // lacking. No slots: there is no room at all.
  struct Budget {
    uint32_t wanted_slots = 0;
    uint32_t slots = 0;
    uint32_t replicas = 0;
    bool is_on_disk = false;
    std::string path;  // of the arena; its folder is made
    std::string why;
  };
  // FAILED_PRECONDITION: its folder cannot be made, or is not this user's alone.
  absl::StatusOr<Budget> BudgetFor(const Place& place, uint64_t image_bytes, uint32_t replicas);
  // Is there room for a copy's arena of that size, beside all that is there now? Empty: yes.
  std::string LackingFor(uint64_t bytes) const;

  // Opens what has come, closes what has gone or was made anew.
  void Refresh();
  // Null when there is none.
  std::shared_ptr<ckpt::Arena> Find(const Place& place) const;
  std::vector<MemoryImage> Images() const;
  // Any thread. Null: it is not there. Several may claim the same image. One that an agent of
  // another node reads stays as long as that one reads it, so whoever reads checks the hashes.
  std::shared_ptr<const ImageClaim> Claim(const Place& place, SavedStep saved);

  void RemoveCopy(const Place& place);
  // Of that node: copies of ranks that are not in `ranks`.
  void RemoveCopies(const std::string& node, const std::set<uint32_t>& ranks);

  // All arenas of the job on this host; whoever has one mapped keeps his memory.
  void RemoveAll();

  const std::string& job_id() const { return job_id_; }
  const std::string& boot_id() const { return boot_id_; }

 private:
  static std::string PathIn(const std::string& root, const Place& place);
  void FitIntoMemory(const Place& place, uint64_t image_bytes, uint32_t replicas, Budget* budget);
  void FitOntoDisk(const Place& place, uint64_t image_bytes, Budget* budget) const;
  // What ranks of other hosts will still have here for the copies that ours have there.
  uint64_t PromisedTo(const Place& but) const;
  struct Open {
    uint64_t inode = 0;
    std::shared_ptr<ckpt::Arena> arena;  // owners: the shelf and the tasks that read from it
  };

  // Claims outlive the shelf where a thread still holds one.
  struct Claims {
    std::mutex mutex;                                                  // guards `held`
    std::map<std::pair<const ckpt::Arena*, uint32_t>, uint32_t> held;  // how often, by slot
  };

  const Roots roots_;
  const std::string job_id_;
  const std::string boot_id_;
  mutable std::mutex mutex_;  // guards open_ against Claim; the rest is the loop's
  std::map<Place, Open> open_;
  std::map<Place, uint64_t> promised_;  // room for copies, by the arena that asked for it
  const std::shared_ptr<Claims> claims_ = std::make_shared<Claims>();
};

// Where this user's jobs have their arenas: in memory, and on a disk.
struct ArenaHomes {
  std::string memory;
  std::string disk;
};
// This user's folder below `parent`: paceline-UID. Where that is another user's or can be entered
// by others, it is paceline-UID-XXXXXX: the one that is there, or a new one if `makes`. Returns
// paceline-UID if there is no other, and WhatIsWrongWithHome says what keeps it from being used.
std::string ArenaHomeIn(const std::string& parent, bool makes);
ArenaHomes ArenaHomesOfUser(bool makes = false);
// Why nothing may be saved in that folder, in words; empty: it is this user's alone, or is not
// there yet. The names are known to everybody, and so another user may have made one of them.
std::string WhatIsWrongWithHome(const std::string& path);

// Makes the folder of a node below `root`, which is one of ArenaRoots. FAILED_PRECONDITION: it
// cannot be made, or is not this user's alone.
absl::Status MakeArenaFolder(const std::string& root, const std::string& node);

// /dev/shm/paceline-UID/JOB and /var/tmp/paceline-UID/JOB; no disk where the latter is far away.
ArenaShelf::Roots ArenaRoots(const std::string& job_id);

}  // namespace paceline::agent
