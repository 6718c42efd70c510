#include "paceline/ckpt/storage/image_files.h"

#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {

SourcePart::SourcePart(ChunkSource* whole, uint64_t begin, uint64_t size)
    : whole_(whole), first_(begin / kChunkBytes), size_(size) {
  CHECK(begin % kChunkBytes == 0, "a part of an image begins with a chunk");
  CHECK(size % kChunkBytes == 0 || begin + size == whole->size(), "and ends with one");
}

Result<std::span<const std::byte>> SourcePart::Chunk(size_t index) {
  const Result<std::span<const std::byte>> chunk = whole_->Chunk(first_ + index);
  if (chunk.ok()) bytes_read_ += chunk->size();
  return chunk;
}

JoinedSource::JoinedSource(std::unique_ptr<ChunkSource> first, std::unique_ptr<ChunkSource> second)
    : first_(std::move(first)), second_(std::move(second)) {
  CHECK(first_->size() % kChunkBytes == 0, "the first of two files ends with a chunk");
}

Result<std::span<const std::byte>> JoinedSource::Chunk(size_t index) {
  const size_t of_first = first_->size() / kChunkBytes;
  const Result<std::span<const std::byte>> chunk =
      index < of_first ? first_->Chunk(index) : second_->Chunk(index - of_first);
  bytes_read_ = first_->bytes_read() + second_->bytes_read();
  return chunk;
}

void JoinedSource::Expect(std::span<const size_t> chunks) {
  const size_t of_first = first_->size() / kChunkBytes;
  std::vector<size_t> first;
  std::vector<size_t> second;
  for (const size_t index : chunks) {
    index < of_first ? first.push_back(index) : second.push_back(index - of_first);
  }
  first_->Expect(first);
  second_->Expect(second);
}

Result<OpenedImage> OpenImage(Store* store, const std::string& folder, const Manifest& manifest,
                              uint32_t rank) {
  const auto open = [&](const ManifestFile& file) {
    return store->Open(folder.empty() ? file.name : Concat(folder, "/", file.name), file.bytes);
  };
  return OpenImage(open, manifest, rank);
}

Result<OpenedImage> OpenImage(const FileOpener& open, const Manifest& manifest, uint32_t rank) {
  const ManifestRank* of = manifest.Of(rank);
  const ManifestFile* file = of == nullptr ? nullptr : manifest.Find(of->file);
  if (file == nullptr) {
    return Failure{FailureKind::kInvalid, Concat("the manifest has nothing for rank ", rank)};
  }
  OpenedImage opened{nullptr, file->hashes};
  ASSIGN_OR_RETURN(opened.source, open(*file));
  if (of->frozen.empty()) return opened;
  const ManifestFile* frozen = manifest.Find(of->frozen);
  if (frozen == nullptr || file->bytes % kChunkBytes != 0) {
    return Failure{FailureKind::kInvalid,
                   Concat("the two files of rank ", rank, " do not belong together")};
  }
  ASSIGN_OR_RETURN(auto second, open(*frozen));
  opened.source = std::make_unique<JoinedSource>(std::move(opened.source), std::move(second));
  opened.hashes.insert(opened.hashes.end(), frozen->hashes.begin(), frozen->hashes.end());
  return opened;
}

}  // namespace paceline::ckpt
