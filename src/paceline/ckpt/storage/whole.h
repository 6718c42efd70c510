#pragma once

// A checkpoint in storage as whole tensors, whatever number of ranks and layout saved it. Used to
// export a checkpoint and to compare two.

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
  // Opens the checkpoint `name`; `store` must outlive the reader. Reads every file's header.
  // kNotFound, kDamaged; kInvalid also if the boxes do not tile whole tensors.
  static Result<std::unique_ptr<WholeReader>> Open(Store* store, const std::string& name);

  const Manifest& manifest() const { return manifest_; }
  const std::map<std::string, WholeTensor>& tensors() const { return tensors_; }

  struct Wanted {
    std::string key;
    std::span<std::byte> data;  // of the tensor's size
  };
  // Reads each file's chunks once for all wanted tensors, and verifies them. kDamaged, kSystem.
  // kNotFound: there is no such tensor. kInvalid: the memory has another size.
  Result<void> Read(std::span<const Wanted> wanted);

  // Rank 0's notes, verified; see docs/formats/notes.md.
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
  std::map<std::string, std::vector<Part>> parts_;  // a replicated box is listed once
};

// Batches of consecutive names whose tensors have at most `bytes_max` together, or of one larger
// tensor. Each batch is read at once.
std::vector<std::vector<std::string>> Batches(const std::map<std::string, WholeTensor>& tensors,
                                              uint64_t bytes_max);

}  // namespace paceline::ckpt
