#pragma once

// A checkpoint in storage as whole tensors, however many ranks saved it in whatever layout: for
// exporting it, and for comparing two.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

struct WholeTensor {
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};

class WholeReader {
 public:
  // The checkpoint `name` of `store`, which has to live as long. Reads every file's header.
  // kNotFound, kDamaged; kInvalid also when the boxes do not make up whole tensors.
  static Result<std::unique_ptr<WholeReader>> Open(Store* store, const std::string& name);

  const Manifest& manifest() const { return manifest_; }
  const std::map<std::string, WholeTensor>& tensors() const { return tensors_; }

  struct Wanted {
    std::string key;
    std::span<std::byte> data;  // as large as the tensor
  };
  // Each file's chunks are read once for all that is wanted, and verified. kDamaged, kSystem;
  // kNotFound: there is no such tensor. kInvalid: memory of another size.
  Result<void> Read(std::span<const Wanted> wanted);

  // What rank 0 saved beside its tensors, verified; see docs/formats/notes.md.
  const std::string& notes() const { return notes_; }

 private:
  struct File {
    std::unique_ptr<ChunkSource> source;
    std::vector<uint64_t> hashes;
  };
  struct Part {
    size_t file = 0;
    TensorBox box;
  };
  WholeReader() = default;
  Result<void> Add(Store* store, const std::string& folder, const ManifestFile& file);

  Manifest manifest_;
  std::string notes_;
  std::vector<File> files_;
  std::map<std::string, WholeTensor> tensors_;
  std::map<std::string, std::vector<Part>> parts_;  // replicas of a box are listed once
};

// Consecutive names, in order, whose tensors together have at most `bytes_max`, or one that is
// larger by itself: what is read at once.
std::vector<std::vector<std::string>> Batches(const std::map<std::string, WholeTensor>& tensors,
                                              uint64_t bytes_max);

}  // namespace paceline::ckpt
