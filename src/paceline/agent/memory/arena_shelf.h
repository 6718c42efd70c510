#pragma once

// The arenas of a job on this host: finds and opens them, claims their images, budgets room for new
// ones, and removes them.
//
//   /dev/shm/paceline-UID/JOB/NODE/rank-3.arena   saved by rank 3 on this host
//                                  rank-5.copy    saved by rank 5 on another host
//   /var/tmp/paceline-UID/JOB/…                   the same on a disk, for ranks without room in
//                                                 memory; never copies
//
// Every agent of the host reads all of them, because the memory of a dead agent's node still has
// images. An agent writes only below its own node's name, and only copies.

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

// While this object exists, the image does not change.
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

  // The folders are made with the first arena.
  struct Roots {
    std::string memory;     // on a tmpfs
    std::string disk = {};  // "": no disk is used
  };
  // `boot_id` is the one that the agent reports.
  ArenaShelf(Roots roots, std::string job_id, std::string boot_id)
      : roots_(std::move(roots)), job_id_(std::move(job_id)), boot_id_(std::move(boot_id)) {}

  // The arena's path; if it does not exist, its future path in memory.
  std::string PathOf(const Place& place) const;
  // Makes the folder for a copy, in memory.
  absl::Status Prepare(const Place& place);
  // The budget of an arena for images of that size. Without copies it has 3 slots. With `replicas`
  // copies on other hosts it has a 4th, which keeps the last replicated step while the next one is
  // sent; this host then also needs room for as many copies of other hosts' images. If room is
  // short, slots are dropped first (at least 2 stay), then copies. The last resort is an arena on
  // disk, which has no copies. `why` says what was short. 0 slots: there is no room at all.
  struct Budget {
    uint32_t wanted_slots = 0;
    uint32_t slots = 0;
    uint32_t replicas = 0;
    bool is_on_disk = false;
    std::string path;  // of the arena; its folder exists
    std::string why;
  };
  // FAILED_PRECONDITION: the folder cannot be made, or others may enter it.
  absl::StatusOr<Budget> BudgetFor(const Place& place, uint64_t image_bytes, uint32_t replicas);
  // Returns "" if a copy's arena of that size has room now, else a text that says what is short.
  std::string LackingFor(uint64_t bytes) const;

  // Opens new arenas; closes removed and replaced ones.
  void Refresh();
  // Null if there is none.
  std::shared_ptr<ckpt::Arena> Find(const Place& place) const;
  std::vector<MemoryImage> Images() const;
  // Claims an image; any thread. Null if it is gone. An image may be claimed several times. An
  // agent of another node may still release the image, so readers check the hashes.
  std::shared_ptr<const ImageClaim> Claim(const Place& place, SavedStep saved);

  void RemoveCopy(const Place& place);
  // Removes the node's copies of ranks that are not in `ranks`.
  void RemoveCopies(const std::string& node, const std::set<uint32_t>& ranks);

  // Removes all arenas of the job on this host. Processes keep the memory that they have mapped.
  void RemoveAll();

  const std::string& job_id() const { return job_id_; }
  const std::string& boot_id() const { return boot_id_; }

 private:
  static std::string PathIn(const std::string& root, const Place& place);
  void FitIntoMemory(const Place& place, uint64_t image_bytes, uint32_t replicas, Budget* budget);
  void FitOntoDisk(const Place& place, uint64_t image_bytes, Budget* budget) const;
  // Bytes reserved here for copies of other hosts' images, without those for the arena `but`.
  uint64_t PromisedTo(const Place& but) const;
  struct Open {
    uint64_t inode = 0;
    std::shared_ptr<ckpt::Arena> arena;  // owners: the shelf, and tasks that read from it
  };

  // Claims outlive the shelf if a thread still holds one.
  struct Claims {
    std::mutex mutex;                                                  // guards `held`
    std::map<std::pair<const ckpt::Arena*, uint32_t>, uint32_t> held;  // number of claims, by slot
  };

  const Roots roots_;
  const std::string job_id_;
  const std::string boot_id_;
  mutable std::mutex mutex_;  // guards open_ against Claim; the loop owns the rest
  std::map<Place, Open> open_;
  std::map<Place, uint64_t> promised_;  // room for copies, by the arena that needs it
  const std::shared_ptr<Claims> claims_ = std::make_shared<Claims>();
};

// The folders of this user's arenas, in memory and on a disk.
struct ArenaHomes {
  std::string memory;
  std::string disk;
};
// This user's folder below `parent`: paceline-UID. If another user owns it or may enter it, it is
// paceline-UID-XXXXXX: an existing one, or a new one if `makes`. Returns paceline-UID if there is
// no other; WhatIsWrongWithHome then says why it is unusable.
std::string ArenaHomeIn(const std::string& parent, bool makes);
ArenaHomes ArenaHomesOfUser(bool makes = false);
// Why this folder must not be used, in words. Empty if it is this user's alone or does not exist.
// The name is predictable, so another user may have made it.
std::string WhatIsWrongWithHome(const std::string& path);

// Makes a node's folder below `root`, one of ArenaRoots. FAILED_PRECONDITION: it cannot be made, or
// others may enter it.
absl::Status MakeArenaFolder(const std::string& root, const std::string& node);

// /dev/shm/paceline-UID/JOB and /var/tmp/paceline-UID/JOB. No disk if the latter is on a network
// file system.
ArenaShelf::Roots ArenaRoots(const std::string& job_id);

}  // namespace paceline::agent
