#include "paceline/ckpt/image/drain.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

// One chunk of the image in flight, or the rest of it after a short write.
struct Piece {
  const std::byte* data = nullptr;
  uint64_t at = 0;
  uint64_t bytes = 0;
};

class Writer {
 public:
  Writer(ChunkSource* image, std::span<const uint64_t> hashes, const std::string& path,
         const DrainOptions& options, bool is_direct)
      : image_(image),
        hashes_(hashes),
        path_(path),
        options_(options),
        disk_(options.disk),
        is_direct_(is_direct) {}

  ~Writer() {
    if (fd_ >= 0) disk_->Close(fd_);
    if (is_made_ && !is_done_) disk_->Unlink(path_);
  }

  Result<void> Open() {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    fd_ = disk_->Open(path_, flags | (is_direct_ ? O_DIRECT : 0));
    if (fd_ < 0) {
      // Some file systems create the file before they refuse O_DIRECT.
      if (fd_ == -EINVAL && is_direct_) disk_->Unlink(path_);
      return DiskFailure("cannot make", path_, -fd_);
    }
    is_made_ = true;
    // Reserves the room now, so that a full disk fails here. File systems that cannot reserve fail
    // later.
    const uint64_t bytes = RoundUpToPage(image_->size());
    const int reserved = bytes == 0 ? 0 : disk_->Reserve(fd_, bytes);
    if (reserved < 0 && reserved != -EOPNOTSUPP) {
      return DiskFailure("cannot reserve room for", path_, -reserved);
    }
    return {};
  }

  Result<void> Finish() {
    const int cut = disk_->Truncate(fd_, image_->size());
    if (cut < 0) return DiskFailure("cannot cut", path_, -cut);
    // Only once: after a failed sync a second one may report success although the data is lost.
    const int synced = disk_->Sync(fd_);
    if (synced < 0) return DiskFailure("cannot sync", path_, -synced);
    is_done_ = true;
    return {};
  }

  Result<void> WriteByPwrite() {
    for (size_t i = 0; i < hashes_.size(); ++i) {
      ASSIGN_OR_RETURN(Piece piece, Chunk(i));
      while (piece.bytes > 0) {
        const int64_t done = disk_->Write(fd_, piece.data, piece.bytes, piece.at);
        if (done <= 0) return DiskFailure("cannot write", path_, done < 0 ? -Number(done) : EIO);
        RETURN_IF_ERROR(Advance(&piece, static_cast<uint64_t>(done)));
      }
    }
    return {};
  }

  // kNotHere: there is no io_uring.
  Result<void> WriteByUring() {
    const uint32_t depth = image_->is_stable() ? options_.depth : 1;
    const std::unique_ptr<WriteQueue> queue = disk_->MakeQueue(depth);
    if (queue == nullptr) return Failure{FailureKind::kNotHere, "there is no io_uring here"};
    Result<void> status = WriteOn(queue.get(), depth);
    // Wait for all writes even after a failure, because the kernel still reads from the slot.
    for (; in_flight_ > 0; --in_flight_) {
      WriteQueue::Done done;
      if (queue->Wait(&done) != 0) break;
    }
    return status;
  }

 private:
  static int Number(int64_t negative) { return static_cast<int>(negative); }

  Result<Piece> Chunk(size_t index) {
    const uint64_t at = index * kChunkBytes;
    ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, image_->Chunk(index));
    if (options_.pacer != nullptr) options_.pacer->Take(chunk.size());
    if (options_.verify && HashOf(chunk.data(), chunk.size()) != hashes_[index]) {
      return Failure{FailureKind::kDamaged, Concat("bytes ", at, " to ", at + chunk.size(),
                                                   " of the image are not those that were saved")};
    }
    return Piece{chunk.data(), at, is_direct_ ? RoundUpToPage(chunk.size()) : chunk.size()};
  }

  // Continues a short write. A direct write continues at a page border, so some bytes are written
  // twice.
  Result<void> Advance(Piece* piece, uint64_t done) const {
    const uint64_t kept = is_direct_ ? done / kPageBytes * kPageBytes : done;
    if (kept == 0 && piece->bytes > 0) {
      return DiskFailure("cannot write", path_, EIO);
    }
    piece->data += kept;
    piece->at += kept;
    piece->bytes -= std::min(kept, piece->bytes);
    return {};
  }

  Result<void> WriteOn(WriteQueue* queue, uint32_t depth) {
    std::vector<Piece> pieces(depth);
    std::vector<uint32_t> idle;
    for (uint32_t i = 0; i < depth; ++i) idle.push_back(i);
    size_t next = 0;
    while (next < hashes_.size() || in_flight_ > 0) {
      while (next < hashes_.size() && !idle.empty()) {
        ASSIGN_OR_RETURN(pieces[idle.back()], Chunk(next));
        RETURN_IF_ERROR(Submit(queue, pieces, idle.back()));
        idle.pop_back();
        ++next;
      }
      WriteQueue::Done done;
      const int waited = queue->Wait(&done);
      if (waited < 0) return DiskFailure("cannot wait for", path_, -waited);
      --in_flight_;
      Piece& piece = pieces[done.tag];
      const bool is_again = done.result == -EINTR || done.result == -EAGAIN;
      if (done.result <= 0 && !is_again) {
        return DiskFailure("cannot write", path_, done.result == 0 ? EIO : -Number(done.result));
      }
      if (!is_again) RETURN_IF_ERROR(Advance(&piece, static_cast<uint64_t>(done.result)));
      if (piece.bytes > 0) {
        RETURN_IF_ERROR(Submit(queue, pieces, static_cast<uint32_t>(done.tag)));
      } else {
        idle.push_back(static_cast<uint32_t>(done.tag));
      }
    }
    return {};
  }

  Result<void> Submit(WriteQueue* queue, const std::vector<Piece>& pieces, uint32_t index) {
    const Piece& piece = pieces[index];
    const int submitted = queue->Submit(fd_, piece.data, piece.bytes, piece.at, index);
    if (submitted < 0) return DiskFailure("cannot write", path_, -submitted);
    ++in_flight_;
    return {};
  }

  ChunkSource* const image_;
  const std::span<const uint64_t> hashes_;
  const std::string path_;
  const DrainOptions options_;
  Disk* const disk_;
  const bool is_direct_;
  int fd_ = -1;
  uint32_t in_flight_ = 0;
  bool is_made_ = false;
  bool is_done_ = false;
};

// kNotHere: io_uring or O_DIRECT does not work on this file system.
Result<void> DrainBy(bool has_uring, bool is_direct, ChunkSource* image,
                     std::span<const uint64_t> hashes, const std::string& path,
                     const DrainOptions& options) {
  Writer writer(image, hashes, path, options, is_direct);
  RETURN_IF_ERROR(writer.Open());
  RETURN_IF_ERROR(has_uring ? writer.WriteByUring() : writer.WriteByPwrite());
  return writer.Finish();
}

}  // namespace

Result<DrainReport> Drain(ChunkSource* image, std::span<const uint64_t> hashes,
                          const std::string& path, const DrainOptions& options) {
  if (hashes.size() != ChunkCount(image->size())) {
    return Failure{FailureKind::kDamaged, "the image does not have that many chunks"};
  }
  struct Way {
    bool has_uring;
    bool is_direct;
    const char* name;
  };
  constexpr Way kWays[] = {{true, true, "io_uring, O_DIRECT"},
                           {false, true, "pwrite, O_DIRECT"},
                           {false, false, "pwrite"}};
  Result<void> status = Failure{FailureKind::kNotHere, "no way to write was allowed"};
  for (const Way& way : kWays) {
    if ((way.has_uring && !options.may_use_uring) || (way.is_direct && !options.may_bypass_cache)) {
      continue;
    }
    status = DrainBy(way.has_uring, way.is_direct, image, hashes, path, options);
    if (status.ok()) return DrainReport{way.name};
    if (status.failure().kind != FailureKind::kNotHere) return status.failure();
  }
  return status.failure();
}

}  // namespace paceline::ckpt
