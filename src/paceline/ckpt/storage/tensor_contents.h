#pragma once

// Hashes each tensor of a file while the file is written.
//
// Chunk hashes cannot serve for this, because a chunk has parts of several tensors. The node that
// commits compares all ranks' tensors by these hashes. If several ranks saved different bytes as
// the same part of a tensor, a world of another size cannot use it under that name.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/restore.h"

namespace paceline::ckpt {

// Passes on the chunks of another source and hashes the tensors in them. A hash does not depend on
// the tensor's position in the file.
class TensorContents final : public ChunkSource {
 public:
  // Both arguments must stay valid. `boxes` are ordered by their bytes.
  TensorContents(ChunkSource* from, std::span<const TensorBox> boxes)
      : from_(from), boxes_(boxes) {}

  uint64_t size() const override { return from_->size(); }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool wants_order() const override { return from_->wants_order(); }
  void Expect(std::span<const size_t> chunks) override { from_->Expect(chunks); }
  bool is_stable() const override { return from_->is_stable(); }

  // One hash for each box, never 0. Empty unless every chunk was read, such as for a linked file.
  std::vector<uint64_t> Finish();

 private:
  void Take(uint64_t at, std::span<const std::byte> bytes);
  void Add(std::span<const std::byte> bytes);
  void Close();

  ChunkSource* const from_;
  const std::span<const TensorBox> boxes_;
  size_t next_ = 0;               // chunk; earlier ones were hashed
  uint64_t done_ = 0;             // bytes of the current box
  std::vector<std::byte> hold_;   // the start of its current block
  std::vector<uint64_t> blocks_;  // hashes of its blocks
  std::vector<uint64_t> hashes_;  // of earlier boxes
};

}  // namespace paceline::ckpt
