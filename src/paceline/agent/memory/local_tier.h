#pragma once

// A node's checkpoint files on its own disk, between memory and remote storage: the files of its
// own ranks, and files fetched for a restore.
//
//   RUN_DIR/nodes/NODE/tier/step-7-g1/shard-00003.safetensors   as in storage
//                                    /rank-00003.json, rank-00003.part.json
//                                    /rank-00003.image.json     last: this rank's image is complete
//                                    /MANIFEST.json             of fetched files
//
// It holds the newest few steps, outlives agents and reboots, and is removed at the end of the job.
// Files of other jobs are ignored.
//
// The worker's thread writes images and sends them, and the reader's thread fetches files. Either
// of them removes old folders to make room, but none that the other thread uses. The loop's thread
// only reads. Files appear by rename, so it never reads a file that is half written.

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/disk/pacer.h"
#include "paceline/ckpt/storage/copy_checkpoint.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/arena_layout.h"
#include "paceline/model/checkpoint.h"

namespace paceline::agent {

class LocalTier {
 public:
  // The folder `path` is made with the first write. "": there is no tier.
  LocalTier(std::string path, std::string node, std::string job_id);

  bool is_on() const { return !path_.empty(); }
  // Whether that store needs a tier: object stores and network file systems do.
  static bool Serves(const ckpt::Store& store);
  // MemoryImage::place of the images here; no arena has it.
  std::string place() const { return node_ + ".disk"; }

  // The complete images of this node's ranks.
  std::vector<MemoryImage> Images() const;
  bool Has(uint32_t rank, SavedStep saved) const;
  std::string FolderOf(const std::string& name) const { return path_ + "/" + name; }
  // The folder of an image in Images().
  std::string FolderOf(SavedStep saved) const;

  // Writes an image; durable on return. Removes older steps first, except the newest one and those
  // that another thread uses.
  Result<void> Write(const ckpt::ShardPlace& place, const ckpt::ShardImage& image,
                     const ArenaImage& what, ckpt::Pacer* pacer);
  // Copies an image from here to the store. kNotFound: it is not here.
  Result<void> Send(ckpt::Store* store, const ckpt::ShardPlace& place, ckpt::Pacer* pacer);

  // Fetches files of a committed checkpoint and verifies them, as a folder that ranks can read.
  // kBusy: the store does not answer.
  Result<ckpt::Copied> Fetch(ckpt::Store* store, const std::string& name,
                             const ckpt::CopyWish& wish);

  void RemoveAll();

 private:
  // As long as such an object exists, MakeRoom does not remove the folder of that name.
  class Use {
   public:
    Use(LocalTier* tier, const std::string& name);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    LocalTier* const tier_;
    const std::multiset<std::string>::iterator place_;
  };
  // Removes older steps.
  Result<void> MakeRoom();

  const std::string path_;
  const std::string node_;
  const std::string job_id_;
  const std::unique_ptr<ckpt::Store> store_;
  std::mutex mutex_;  // guards the next one; held while folders are removed, never by the loop
  std::multiset<std::string> in_use_;  // names of folders
};

}  // namespace paceline::agent
