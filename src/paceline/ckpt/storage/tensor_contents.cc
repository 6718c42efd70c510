#include "paceline/ckpt/storage/tensor_contents.h"

#include <algorithm>

#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

// A tensor is hashed in blocks of its own, so the result does not depend on its position.
constexpr size_t kBlockBytes = size_t{64} << 10;

}  // namespace

Result<std::span<const std::byte>> TensorContents::Chunk(size_t index) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, from_->Chunk(index));
  // A writer that starts again reads chunks again.
  if (index == next_) {
    Take(index * kChunkBytes, chunk);
    ++next_;
  }
  return chunk;
}

std::vector<uint64_t> TensorContents::Finish() {
  while (hashes_.size() < boxes_.size() && boxes_[hashes_.size()].bytes == done_) Close();
  return next_ == ChunkCount(size()) && hashes_.size() == boxes_.size() ? hashes_
                                                                        : std::vector<uint64_t>();
}

void TensorContents::Take(uint64_t at, std::span<const std::byte> bytes) {
  const uint64_t end = at + bytes.size();
  while (hashes_.size() < boxes_.size()) {
    const TensorBox& box = boxes_[hashes_.size()];
    if (done_ == box.bytes) {
      Close();
      continue;
    }
    const uint64_t begin = box.begin + done_;
    if (begin >= end) return;
    const uint64_t count = std::min(box.bytes - done_, end - begin);
    Add(bytes.subspan(begin - at, count));
    done_ += count;
  }
}

void TensorContents::Add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (hold_.empty() && bytes.size() >= kBlockBytes) {
      blocks_.push_back(HashOf(bytes.data(), kBlockBytes));
      bytes = bytes.subspan(kBlockBytes);
      continue;
    }
    const size_t count = std::min(kBlockBytes - hold_.size(), bytes.size());
    hold_.insert(hold_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (hold_.size() < kBlockBytes) continue;
    blocks_.push_back(HashOf(hold_.data(), hold_.size()));
    hold_.clear();
  }
}

void TensorContents::Close() {
  if (!hold_.empty()) blocks_.push_back(HashOf(hold_.data(), hold_.size()));
  const uint64_t hash =
      blocks_.empty() ? 0 : HashOf(blocks_.data(), blocks_.size() * sizeof(uint64_t));
  hashes_.push_back(hash == 0 ? 1 : hash);
  hold_.clear();
  blocks_.clear();
  done_ = 0;
}

}  // namespace paceline::ckpt
