#include "paceline/ckpt/restore.h"

#include <algorithm>
#include <string_view>

#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/chunk_copy.h"

namespace paceline::ckpt {
namespace {

std::span<const std::byte> ChunkOf(std::span<const std::byte> image, size_t index) {
  const size_t begin = index * kChunkBytes;
  return image.subspan(begin, std::min(kChunkBytes, image.size() - begin));
}

absl::Status Damaged(size_t bytes, size_t index) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    Concat("bytes ", index * kChunkBytes, " to ", index * kChunkBytes + bytes,
                           " are not those that were saved"));
}

absl::Status VerifyChunk(std::span<const std::byte> image, std::span<const uint64_t> hashes,
                         size_t index) {
  const std::span<const std::byte> chunk = ChunkOf(image, index);
  if (HashOf(chunk.data(), chunk.size()) == hashes[index]) return absl::OkStatus();
  return Damaged(chunk.size(), index);
}

absl::Status CheckCount(std::span<const std::byte> image, std::span<const uint64_t> hashes) {
  if (hashes.size() == ChunkCount(image.size())) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kDataLoss,
                    Concat(image.size(), " bytes do not have ", hashes.size(), " chunks"));
}

}  // namespace

absl::Status Verify(std::span<const std::byte> image, std::span<const uint64_t> hashes) {
  RETURN_IF_ERROR(CheckCount(image, hashes));
  for (size_t i = 0; i < hashes.size(); ++i) RETURN_IF_ERROR(VerifyChunk(image, hashes, i));
  return absl::OkStatus();
}

absl::StatusOr<Image> ReadHead(std::span<const std::byte> image, std::span<const uint64_t> hashes) {
  RETURN_IF_ERROR(CheckCount(image, hashes));
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  ASSIGN_OR_RETURN(const uint64_t bytes, HeadBytes(text));
  if (bytes > image.size()) return absl::DataLossError("the header is longer than the image");
  for (size_t i = 0; i * kChunkBytes < bytes; ++i) RETURN_IF_ERROR(VerifyChunk(image, hashes, i));
  return ParseHead(text.substr(0, bytes), image.size());
}

absl::Status Restore(std::span<const std::byte> image, std::span<const uint64_t> hashes,
                     std::vector<Target> targets) {
  RETURN_IF_ERROR(CheckCount(image, hashes));
  std::sort(targets.begin(), targets.end(),
            [](const Target& a, const Target& b) { return a.box.begin < b.box.begin; });
  // Pieces of the present chunk; a tensor may end in the middle of one, and the next begins there.
  std::vector<CopyOut> pieces;
  size_t chunk = 0;
  const auto flush = [&]() -> absl::Status {
    if (pieces.empty()) return absl::OkStatus();
    const std::span<const std::byte> bytes = ChunkOf(image, chunk);
    const uint64_t hash = CopyFromChunk(bytes.data(), bytes.size(), pieces);
    pieces.clear();
    return hash == hashes[chunk] ? absl::OkStatus() : Damaged(bytes.size(), chunk);
  };
  for (const Target& target : targets) {
    if (target.box.begin > image.size() || target.box.bytes > image.size() - target.box.begin) {
      return absl::DataLossError("a tensor lies outside its image");
    }
    uint64_t at = target.box.begin;
    const uint64_t end = at + target.box.bytes;
    auto* to = static_cast<std::byte*>(target.data);
    while (at < end) {
      if (at / kChunkBytes != chunk) {
        RETURN_IF_ERROR(flush());
        chunk = at / kChunkBytes;
      }
      const uint64_t bytes = std::min<uint64_t>(end, (chunk + 1) * kChunkBytes) - at;
      pieces.push_back({at - chunk * kChunkBytes, bytes, to});
      to += bytes;
      at += bytes;
    }
  }
  return flush();
}

}  // namespace paceline::ckpt
