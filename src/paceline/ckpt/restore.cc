#include "paceline/ckpt/restore.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/ckpt/chunk_copy.h"

namespace paceline::ckpt {
namespace {

uint64_t BytesOfChunk(uint64_t size, size_t index) {
  return std::min<uint64_t>(kChunkBytes, size - index * kChunkBytes);
}

Failure Damaged(size_t bytes, size_t index) {
  return {FailureKind::kDamaged,
          Concat("bytes ", index * kChunkBytes, " to ", index * kChunkBytes + bytes,
                 " are not those that were saved")};
}

Result<std::span<const std::byte>> VerifiedChunk(ChunkSource* image,
                                                 std::span<const uint64_t> hashes, size_t index) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, image->Chunk(index));
  if (HashOf(chunk.data(), chunk.size()) != hashes[index]) return Damaged(chunk.size(), index);
  return chunk;
}

Result<void> CheckCount(const ChunkSource& image, std::span<const uint64_t> hashes) {
  if (hashes.size() == ChunkCount(image.size())) return {};
  return Failure{FailureKind::kDamaged,
                 Concat(image.size(), " bytes do not have ", hashes.size(), " chunks")};
}

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::span<const std::byte>> MemorySource::Chunk(size_t index) {
  return image_.subspan(index * kChunkBytes, BytesOfChunk(image_.size(), index));
}

Result<std::unique_ptr<FileSource>> FileSource::Open(const std::string& path, uint64_t size) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!fd.is_open() || ::fstat(fd.get(), &found) != 0) {
    const int error = errno;
    return Failure{error == ENOENT ? FailureKind::kNotFound : FailureKind::kSystem,
                   Concat("cannot open ", path, ": ", std::strerror(error)), error};
  }
  if (static_cast<uint64_t>(found.st_size) != size) {
    return Failure{FailureKind::kDamaged,
                   Concat(path, " has ", found.st_size, " bytes and not ", size)};
  }
  return std::unique_ptr<FileSource>(new FileSource(std::move(fd), path, size));
}

Result<std::span<const std::byte>> FileSource::Chunk(size_t index) {
  const uint64_t bytes = BytesOfChunk(size_, index);
  buffer_.resize(kChunkBytes);
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd_.get(), buffer_.data() + done, bytes - done,
                                static_cast<off_t>(index * kChunkBytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Failure{FailureKind::kSystem,
                     Concat("cannot read ", path_, ": ", std::strerror(errno)), errno};
    }
    if (got == 0) return Failure{FailureKind::kDamaged, path_ + " was cut off"};
    done += static_cast<uint64_t>(got);
  }
  return std::span<const std::byte>(buffer_).first(bytes);
}

Result<void> Verify(ChunkSource* image, std::span<const uint64_t> hashes) {
  RETURN_IF_ERROR(CheckCount(*image, hashes));
  for (size_t i = 0; i < hashes.size(); ++i) RETURN_IF_ERROR(VerifiedChunk(image, hashes, i));
  return {};
}

Result<std::string> ReadAll(ChunkSource* image, std::span<const uint64_t> hashes,
                            uint64_t bytes_max) {
  RETURN_IF_ERROR(CheckCount(*image, hashes));
  if (image->size() > bytes_max) {
    return Failure{FailureKind::kTooLarge, Concat(image->size(), " bytes are too many")};
  }
  std::string text;
  text.reserve(image->size());
  for (size_t i = 0; i < hashes.size(); ++i) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, VerifiedChunk(image, hashes, i));
    text.append(TextOf(chunk));
  }
  return text;
}

Result<Image> ReadHead(ChunkSource* image, std::span<const uint64_t> hashes) {
  RETURN_IF_ERROR(CheckCount(*image, hashes));
  std::string text;
  uint64_t bytes = 8;
  for (size_t i = 0; i < hashes.size() && text.size() < bytes; ++i) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, VerifiedChunk(image, hashes, i));
    text.append(TextOf(chunk));
    if (i > 0) continue;
    ASSIGN_OR_RETURN(bytes, HeadBytes(text));
  }
  if (bytes > text.size()) {
    return Failure{FailureKind::kDamaged, "the header is longer than the image"};
  }
  return ParseHead(std::string_view(text).substr(0, bytes), image->size());
}

Result<void> Restore(ChunkSource* image, std::span<const uint64_t> hashes,
                     std::vector<Target> targets) {
  RETURN_IF_ERROR(CheckCount(*image, hashes));
  std::sort(targets.begin(), targets.end(),
            [](const Target& a, const Target& b) { return a.box.begin < b.box.begin; });
  // Pieces of the present chunk; a tensor may end in the middle of one, and the next begins there.
  std::vector<CopyOut> pieces;
  size_t chunk = 0;
  const auto flush = [&]() -> Result<void> {
    if (pieces.empty()) return {};
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, image->Chunk(chunk));
    const uint64_t hash = CopyFromChunk(bytes.data(), bytes.size(), pieces);
    pieces.clear();
    if (hash != hashes[chunk]) return Damaged(bytes.size(), chunk);
    return {};
  };
  for (const Target& target : targets) {
    if (target.box.begin > image->size() || target.box.bytes > image->size() - target.box.begin) {
      return Failure{FailureKind::kDamaged, "a tensor lies outside its image"};
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
