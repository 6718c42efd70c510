#pragma once

// Images to restore from, in memory or in storage, with one interface: tensors, notes, and verified
// copies of parts.

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
  // kNotFound: the step is gone. Other failures as in Arena::Open.
  static Result<std::unique_ptr<ImageReader>> Open(const InMemory& place);

  // Rank `rank`'s image in the checkpoint in `folder`. kNotFound, kDamaged, kInvalid. `chunks`: the
  // agent's socket through which files are read in chunks (client/chunk_file.h), even if the folder
  // has them; kBusy is then possible, too. "": files are read directly.
  static Result<std::unique_ptr<ImageReader>> Open(const std::string& folder,
                                                   const ckpt::Manifest& manifest, uint32_t rank,
                                                   const std::string& chunks = "");

  // The notes alone, for a rank that takes its tensors from elsewhere. Fails as Open.
  static Result<std::string> ReadNotes(const std::string& folder, const ckpt::Manifest& manifest,
                                       uint32_t rank);
  // Rank `rank`'s image from the parts on its agent's local disk. Fails as Open.
  static Result<std::unique_ptr<ImageReader>> OpenPart(const std::string& folder, uint32_t rank);

  const std::vector<ckpt::TensorBox>& boxes() const { return image_.boxes; }
  // Read and verified at the call.
  Result<std::string> Notes();
  // Bytes of all reads so far. A chunk counts as a whole.
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
