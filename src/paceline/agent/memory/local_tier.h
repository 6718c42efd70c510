#pragma once

// What a node keeps of its checkpoints on its own disk, between memory and a storage that is far
// away: the files of its own ranks, and what was fetched for a restore.
//
//   RUN_DIR/nodes/NODE/tier/step-7-g1/shard-00003.safetensors   as in storage
//                                    /rank-00003.json, rank-00003.part.json
//                                    /rank-00003.image.json     last: this node's image is whole
//                                    /MANIFEST.json             of what was fetched
//
// It holds the newest few steps, survives agents and reboots, and is removed when the job has
// ended. Files of another job are not looked at.
//
// The worker's thread writes it and the loop's thread looks; what is looked at is written by
// rename.

#include <cstdint>
#include <memory>
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
  // `path` is made when something is written. "": there is none.
  LocalTier(std::string path, std::string node, std::string job_id);

  bool is_on() const { return !path_.empty(); }
  // Does that store want a tier before it? Object stores and network file systems do.
  static bool Serves(const ckpt::Store& store);
  // The place of MemoryImage of what is here: no arena has it.
  std::string place() const { return node_ + ".disk"; }

  // The images of this node's ranks, whole.
  std::vector<MemoryImage> Images() const;
  bool Has(uint32_t rank, SavedStep saved) const;
  std::string FolderOf(const std::string& name) const { return path_ + "/" + name; }
  // Of an image of Images().
  std::string FolderOf(SavedStep saved) const;

  // Durable when this returns. Makes room first: of the other steps the newest one stays.
  Result<void> Write(const ckpt::ShardPlace& place, const ckpt::ShardImage& image,
                     const ArenaImage& what, ckpt::Pacer* pacer);
  // From here to where it belongs. kNotFound: it is not here.
  Result<void> Send(ckpt::Store* store, const ckpt::ShardPlace& place, ckpt::Pacer* pacer) const;

  // That of a committed checkpoint, verified, as a folder that ranks can read. kBusy: the store is
  // away.
  Result<ckpt::Copied> Fetch(ckpt::Store* store, const std::string& name,
                             const ckpt::CopyWish& wish);

  void RemoveAll();

 private:
  Result<void> MakeRoom(const std::string& name);

  const std::string path_;
  const std::string node_;
  const std::string job_id_;
  const std::unique_ptr<ckpt::Store> store_;
};

}  // namespace paceline::agent
