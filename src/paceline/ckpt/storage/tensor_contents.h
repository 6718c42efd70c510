#pragma once

// A hash of each tensor of a file, computed while the file is written.
//
// The chunks of a file have hashes, but a chunk holds parts of several tensors. The node that
// commits compares the tensors of all ranks by these: a tensor that several ranks saved as the same
// part of one whole, with other bytes, is not what its name says in a world of another size.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/restore.h"

namespace paceline::ckpt {

// Gives the chunks of another source, and hashes the tensors in them on the way. It does not depend
// on where in its file a tensor lies.
class TensorContents final : public ChunkSource {
 public:
  // Both stay as they are as long as this lives; `boxes` are in the order of their bytes.
  TensorContents(ChunkSource* from, std::span<const TensorBox> boxes)
      : from_(from), boxes_(boxes) {}

  uint64_t size() const override { return from_->size(); }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool wants_order() const override { return from_->wants_order(); }
  void Expect(std::span<const size_t> chunks) override { from_->Expect(chunks); }
  bool is_stable() const override { return from_->is_stable(); }

  // One for each box, never 0. Empty when not every chunk was asked for, as for a file that was
  // linked and not written.
  std::vector<uint64_t> Finish();

 private:
  void Take(uint64_t at, std::span<const std::byte> bytes);
  void Add(std::span<const std::byte> bytes);
  void Close();

  ChunkSource* const from_;
  const std::span<const TensorBox> boxes_;
  size_t next_ = 0;               // chunk; those before it were taken
  uint64_t done_ = 0;             // bytes of the present box
  std::vector<std::byte> hold_;   // the begin of its present block
  std::vector<uint64_t> blocks_;  // hashes of its blocks
  std::vector<uint64_t> hashes_;  // of the boxes before it
};

}  // namespace paceline::ckpt
