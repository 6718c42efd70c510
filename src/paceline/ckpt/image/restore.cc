#include "paceline/ckpt/image/restore.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/base/utf8.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

constexpr int kReadsMax = 3;  // of a chunk that fails its check

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
  // An error in a transfer may be gone at the next read.
  const int tries = image->is_stable() ? 1 : kReadsMax;
  for (int i = 1;; ++i) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, image->Chunk(index));
    if (HashOf(chunk.data(), chunk.size()) == hashes[index]) return chunk;
    if (i == tries) return Damaged(chunk.size(), index);
  }
}

Result<void> CheckCount(const ChunkSource& image, std::span<const uint64_t> hashes) {
  if (hashes.size() == ChunkCount(image.size())) return {};
  return Failure{FailureKind::kDamaged,
                 Concat(image.size(), " bytes do not have ", hashes.size(), " chunks")};
}

// Maps the memory of targets in one call. A restarted process has just allocated it, and a page
// fault for each page takes longer.
void FindMemory(std::span<const CopyOut> pieces) {
  constexpr uintptr_t kPageBytes = 4096;
  constexpr size_t kWorthwhileBytes = size_t{256} << 10;
  for (const CopyOut& piece : pieces) {
    if (piece.size < kWorthwhileBytes) continue;
    const auto begin = reinterpret_cast<uintptr_t>(piece.target) / kPageBytes * kPageBytes;
    const uintptr_t end = reinterpret_cast<uintptr_t>(piece.target) + piece.size;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
  }
}

// Copies ranges of an image in ascending order, chunk by chunk. A tensor may end within a chunk,
// and the next one begins there.
class PiecewiseCopy {
 public:
  PiecewiseCopy(ChunkSource* image, std::span<const uint64_t> hashes)
      : image_(image), hashes_(hashes) {}

  Result<void> Add(uint64_t at, uint64_t bytes, std::byte* to) {
    const uint64_t end = at + bytes;
    while (at < end) {
      if (at / kChunkBytes != chunk_) {
        RETURN_IF_ERROR(Flush());
        chunk_ = at / kChunkBytes;
      }
      const uint64_t here = std::min<uint64_t>(end, (chunk_ + 1) * kChunkBytes) - at;
      pieces_.push_back({at - chunk_ * kChunkBytes, here, to});
      to += here;
      at += here;
    }
    return {};
  }

  Result<void> Flush() {
    if (pieces_.empty()) return {};
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, image_->Chunk(chunk_));
    FindMemory(pieces_);
    const uint64_t hash = CopyFromChunk(bytes.data(), bytes.size(), pieces_);
    pieces_.clear();
    if (hash != hashes_[chunk_]) return Damaged(bytes.size(), chunk_);
    return {};
  }

 private:
  ChunkSource* const image_;
  const std::span<const uint64_t> hashes_;
  std::vector<CopyOut> pieces_;
  size_t chunk_ = 0;
};

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<std::span<const std::byte>> MemorySource::Chunk(size_t index) {
  bytes_read_ += BytesOfChunk(image_.size(), index);
  return image_.subspan(index * kChunkBytes, BytesOfChunk(image_.size(), index));
}

Result<std::unique_ptr<FileSource>> FileSource::Open(const std::string& path, uint64_t size,
                                                     Disk* disk) {
  RETURN_IF_ERROR(CheckReadable(path));
  const int fd = disk->Open(path, O_RDONLY | O_NONBLOCK);  // the file may have become a FIFO
  if (fd < 0) return DiskFailure("cannot open", path, -fd);
  auto source = std::unique_ptr<FileSource>(new FileSource(disk, fd, path, size));
  const int64_t found = disk->SizeOf(fd);
  if (found < 0) return DiskFailure("cannot open", path, static_cast<int>(-found));
  if (static_cast<uint64_t>(found) == size) return source;
  return Failure{FailureKind::kDamaged, Concat(path, " has ", found, " bytes and not ", size)};
}

Result<std::span<const std::byte>> FileSource::Chunk(size_t index) {
  const uint64_t bytes = BytesOfChunk(size_, index);
  std::byte* const to = buffer_.Get(std::min<uint64_t>(kChunkBytes, RoundUpToPage(size_)));
  if (held_ == index) return std::span<const std::byte>(to, bytes);
  held_.reset();
  uint64_t done = 0;
  while (done < bytes) {
    const int64_t got =
        disk_->Read(file_.fd(), to + done, bytes - done, index * kChunkBytes + done);
    if (got < 0) return DiskFailure("cannot read", path_, static_cast<int>(-got));
    if (got == 0) return Failure{FailureKind::kDamaged, path_ + " was cut off"};
    done += static_cast<uint64_t>(got);
  }
  held_ = index;
  bytes_read_ += bytes;
  return std::span<const std::byte>(to, bytes);
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

namespace {

// The header of the file that begins at chunk `first`.
Result<std::string> HeadTextAt(ChunkSource* image, std::span<const uint64_t> hashes, size_t first) {
  std::string text;
  uint64_t bytes = 8;
  for (size_t i = first; i < hashes.size() && text.size() < bytes; ++i) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, VerifiedChunk(image, hashes, i));
    text.append(TextOf(chunk));
    if (i > first) continue;
    ASSIGN_OR_RETURN(bytes, HeadBytes(text));
  }
  if (bytes > text.size()) {
    return Failure{FailureKind::kDamaged, "the header is longer than the image"};
  }
  text.resize(bytes);
  return text;
}

}  // namespace

Result<Image> ReadHead(ChunkSource* image, std::span<const uint64_t> hashes) {
  RETURN_IF_ERROR(CheckCount(*image, hashes));
  ASSIGN_OR_RETURN(const std::string text, HeadTextAt(image, hashes, 0));
  ASSIGN_OR_RETURN(Image head, ParseHead(text, image->size()));
  if (head.second_at == 0) return head;
  ASSIGN_OR_RETURN(const std::string second,
                   HeadTextAt(image, hashes, head.second_at / kChunkBytes));
  RETURN_IF_ERROR(ParseSecondHead(second, &head));
  return head;
}

namespace {

// The size of an array in bytes; none if it exceeds the address space.
std::optional<uint64_t> ArrayBytes(const std::vector<uint64_t>& shape, size_t element) {
  uint64_t bytes = element;
  for (const uint64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// kInvalid: a target's memory has another size than its data. Callers in Python pass addresses of
// tensors whose type or shape may differ.
Result<void> CheckMemory(const std::vector<Target>& targets) {
  for (const Target& target : targets) {
    std::optional<uint64_t> bytes = target.box.bytes;
    if (target.part.has_value()) {
      RETURN_IF_ERROR(CheckRegion(*target.part, target.box.shape));
      bytes = ArrayBytes(target.part->shape, BytesOf(target.box.dtype));
    }
    const bool has_memory = target.data.empty() || target.data.data() != nullptr;
    if (bytes == target.data.size() && has_memory) continue;
    return Failure{
        FailureKind::kInvalid,
        Concat("tensor \"", CleanText(target.box.key), "\" of type ", NameOf(target.box.dtype),
               " does not fit into memory of ", target.data.size(), " bytes")};
  }
  return {};
}

// Calls `add` with each piece's offset in the image, its size and its target, in ascending order.
template <class Add>
Result<void> ForEachPiece(uint64_t image_bytes, const std::vector<Target>& targets,
                          const Add& add) {
  for (const Target& target : targets) {
    const TensorBox& box = target.box;
    if (box.begin > image_bytes || box.bytes > image_bytes - box.begin) {
      return Failure{FailureKind::kDamaged, "a tensor lies outside its image"};
    }
    std::byte* const data = target.data.data();
    if (!target.part.has_value()) {
      RETURN_IF_ERROR(add(box.begin, box.bytes, data));
      continue;
    }
    RETURN_IF_ERROR(ForEachRun(
        *target.part, box.shape, BytesOf(box.dtype),
        [&](const ByteRun& run) { return add(box.begin + run.from, run.bytes, data + run.to); }));
  }
  return {};
}

}  // namespace

Result<void> Restore(ChunkSource* image, std::span<const uint64_t> hashes,
                     std::vector<Target> targets) {
  RETURN_IF_ERROR(CheckCount(*image, hashes));
  RETURN_IF_ERROR(CheckMemory(targets));
  std::sort(targets.begin(), targets.end(),
            [](const Target& a, const Target& b) { return a.box.begin < b.box.begin; });
  if (image->wants_order()) {
    std::vector<size_t> chunks;
    RETURN_IF_ERROR(ForEachPiece(
        image->size(), targets, [&](uint64_t at, uint64_t bytes, std::byte*) -> Result<void> {
          if (bytes == 0) return {};
          for (size_t i = at / kChunkBytes; i <= (at + bytes - 1) / kChunkBytes; ++i) {
            if (chunks.empty() || chunks.back() != i) chunks.push_back(i);
          }
          return {};
        }));
    image->Expect(chunks);
  }
  PiecewiseCopy copy(image, hashes);
  RETURN_IF_ERROR(ForEachPiece(
      image->size(), targets,
      [&](uint64_t at, uint64_t bytes, std::byte* to) { return copy.Add(at, bytes, to); }));
  return copy.Flush();
}

}  // namespace paceline::ckpt
