#pragma once

// Images to restore from, in memory or in storage, behind one face: their tensors, their notes, and
// a verified copy of what is wanted.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/storage.h"

namespace paceline::client {

class ImageReader {
 public:
  struct InMemory {
    std::string path;
    ckpt::ArenaIdentity identity;
    SavedStep saved;
  };
  // kNotFound: that step is not there any more. Otherwise as Arena::Open.
  static Result<std::unique_ptr<ImageReader>> Open(const InMemory& place);

  // What rank `rank` takes from the checkpoint in that folder. kNotFound, kDamaged, kInvalid.
  // `chunks`: the agent's socket that its files are asked for by chunks (client/chunk_file.h),
  // whatever the folder has of them; "": they are read here. Then kBusy as well.
  static Result<std::unique_ptr<ImageReader>> Open(const std::string& folder,
                                                   const ckpt::Manifest& manifest, uint32_t rank,
                                                   const std::string& chunks = "");

  // The notes alone, for a rank whose tensors are somewhere else. As the one before.
  static Result<std::string> ReadNotes(const std::string& folder, const ckpt::Manifest& manifest,
                                       uint32_t rank);
  // Rank `rank`'s own image of a checkpoint whose parts an agent keeps on its local disk. The same.
  static Result<std::unique_ptr<ImageReader>> OpenPart(const std::string& folder, uint32_t rank);

  const std::vector<ckpt::TensorBox>& boxes() const { return image_.boxes; }
  // Read and verified when they are asked for.
  Result<std::string> Notes();
  // Of everything that was looked at, by whole chunks.
  uint64_t bytes_read() const { return source_->bytes_read() + notes_->bytes_read(); }

  // Copies boxes, or parts of them. See ckpt::Restore.
  Result<void> Restore(std::vector<ckpt::Target> targets);

 private:
  ImageReader() = default;
  std::unique_ptr<ckpt::Arena> arena_;  // that source_ looks into, when it is in memory
  std::unique_ptr<ckpt::ChunkSource> source_;
  std::vector<uint64_t> hashes_;
  std::unique_ptr<ckpt::ChunkSource> notes_;
  std::vector<uint64_t> notes_hashes_;
  ckpt::Image image_;
};

}  // namespace paceline::client
