#pragma once

// An image is one file in storage, or two (format/safetensors.h). Splits one source into two and
// joins two into one.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// A range of chunks of another source, which must outlive it.
class SourcePart final : public ChunkSource {
 public:
  // `begin` is a multiple of kChunkBytes, and so is `begin + size`, unless it is the source's end.
  SourcePart(ChunkSource* whole, uint64_t begin, uint64_t size);
  uint64_t size() const override { return size_; }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool is_stable() const override { return whole_->is_stable(); }

 private:
  ChunkSource* const whole_;
  const size_t first_;
  const uint64_t size_;
};

// Two sources as one. The first one must end at the end of a chunk.
class JoinedSource final : public ChunkSource {
 public:
  JoinedSource(std::unique_ptr<ChunkSource> first, std::unique_ptr<ChunkSource> second);
  uint64_t size() const override { return first_->size() + second_->size(); }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool wants_order() const override { return first_->wants_order(); }
  void Expect(std::span<const size_t> chunks) override;

 private:
  const std::unique_ptr<ChunkSource> first_;
  const std::unique_ptr<ChunkSource> second_;
};

struct OpenedImage {
  std::unique_ptr<ChunkSource> source;
  std::vector<uint64_t> hashes;
};
// Opens a file that the manifest names.
using FileOpener = std::function<Result<std::unique_ptr<ChunkSource>>(const ManifestFile&)>;
// The image of rank `rank`, as it was in memory. kInvalid: the manifest has nothing for this rank.
// Fails as `open` does.
Result<OpenedImage> OpenImage(const FileOpener& open, const Manifest& manifest, uint32_t rank);
// As above, from `folder` of the store ("": the root). kNotFound, kDamaged, kInvalid.
Result<OpenedImage> OpenImage(Store* store, const std::string& folder, const Manifest& manifest,
                              uint32_t rank);

}  // namespace paceline::ckpt
