#include "paceline/ckpt/drain.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/result.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/chunk_copy.h"

namespace paceline::ckpt {
namespace {

constexpr uint64_t kBlock = 4096;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

Failure Failed(std::string_view what, const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Failure{is_full               ? FailureKind::kFull
                 : error == EEXIST     ? FailureKind::kExists
                 : error == EINVAL     ? FailureKind::kNotHere
                 : error == EOPNOTSUPP ? FailureKind::kNotHere
                                       : FailureKind::kSystem,
                 Concat(what, " ", path, ": ", std::strerror(error))};
}

// One chunk of the image on its way, or what is left of it after a short write.
struct Piece {
  const std::byte* data = nullptr;
  uint64_t at = 0;
  uint64_t bytes = 0;
};

class Writer {
 public:
  Writer(std::span<const std::byte> image, std::span<const uint64_t> hashes,
         const std::string& path, const DrainOptions& options, bool is_direct)
      : image_(image), hashes_(hashes), path_(path), options_(options), is_direct_(is_direct) {}

  ~Writer() {
    if (is_made_ && !is_done_) ::unlink(path_.c_str());
  }

  Result<void> Open() {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    fd_ = Fd(::open(path_.c_str(), flags | (is_direct_ ? O_DIRECT : 0), 0600));
    if (!fd_.is_open()) {
      const int error = errno;
      // Some file systems make the file before they refuse the flag.
      if (error == EINVAL && is_direct_) ::unlink(path_.c_str());
      return Failed("cannot make", path_, error);
    }
    is_made_ = true;
    // The room now, or an error now. Where a file system cannot reserve, the writes will tell.
    const auto bytes = static_cast<off_t>(RoundUp(image_.size()));
    if (bytes > 0 && ::fallocate(fd_.get(), 0, 0, bytes) != 0 && errno != EOPNOTSUPP) {
      return Failed("cannot reserve room for", path_, errno);
    }
    return {};
  }

  Result<void> Finish() {
    if (::ftruncate(fd_.get(), static_cast<off_t>(image_.size())) != 0) {
      return Failed("cannot cut", path_, errno);
    }
    // Once: after a failed sync the kernel may say that all is well, with the data gone.
    if (::fsync(fd_.get()) != 0) return Failed("cannot sync", path_, errno);
    is_done_ = true;
    return {};
  }

  Result<void> WriteByPwrite() {
    for (size_t i = 0; i < hashes_.size(); ++i) {
      ASSIGN_OR_RETURN(Piece piece, Chunk(i));
      while (piece.bytes > 0) {
        const ssize_t done =
            ::pwrite(fd_.get(), piece.data, piece.bytes, static_cast<off_t>(piece.at));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return Failed("cannot write", path_, done < 0 ? errno : EIO);
        Advance(&piece, static_cast<uint64_t>(done));
      }
    }
    return {};
  }

  // kNotHere: no io_uring here.
  Result<void> WriteByUring() {
    io_uring ring;
    if (const int error = ::io_uring_queue_init(options_.depth, &ring, 0); error != 0) {
      return Failure{FailureKind::kNotHere, std::strerror(-error)};
    }
    Result<void> status = WriteOn(&ring);
    // Whatever failed: the kernel reads the slot until the last write has come back.
    for (; in_flight_ > 0; --in_flight_) {
      io_uring_cqe* end = nullptr;
      if (::io_uring_wait_cqe(&ring, &end) != 0) break;
      ::io_uring_cqe_seen(&ring, end);
    }
    ::io_uring_queue_exit(&ring);
    return status;
  }

 private:
  Result<Piece> Chunk(size_t index) const {
    const uint64_t at = index * kChunkBytes;
    const uint64_t bytes = std::min<uint64_t>(kChunkBytes, image_.size() - at);
    if (options_.verify && HashOf(image_.data() + at, bytes) != hashes_[index]) {
      return Failure{FailureKind::kDamaged, Concat("bytes ", at, " to ", at + bytes,
                                                   " of the slot are not those that were saved")};
    }
    return Piece{image_.data() + at, at, is_direct_ ? RoundUp(bytes) : bytes};
  }

  static void Advance(Piece* piece, uint64_t done) {
    piece->data += done;
    piece->at += done;
    piece->bytes -= done;
  }

  Result<void> WriteOn(io_uring* ring) {
    std::vector<Piece> pieces(options_.depth);
    std::vector<uint32_t> idle;
    for (uint32_t i = 0; i < options_.depth; ++i) idle.push_back(i);
    size_t next = 0;
    while (next < hashes_.size() || in_flight_ > 0) {
      while (next < hashes_.size() && !idle.empty()) {
        ASSIGN_OR_RETURN(pieces[idle.back()], Chunk(next));
        RETURN_IF_ERROR(Submit(ring, pieces, idle.back()));
        idle.pop_back();
        ++next;
      }
      io_uring_cqe* end = nullptr;
      const int waited = ::io_uring_wait_cqe(ring, &end);
      if (waited == -EINTR) continue;
      if (waited != 0) return Failed("cannot wait for", path_, -waited);
      const auto index = static_cast<uint32_t>(end->user_data);
      const int done = end->res;
      ::io_uring_cqe_seen(ring, end);
      --in_flight_;
      if (done <= 0 && done != -EINTR && done != -EAGAIN) {
        return Failed("cannot write", path_, done == 0 ? EIO : -done);
      }
      Advance(&pieces[index], static_cast<uint64_t>(std::max(done, 0)));
      if (pieces[index].bytes > 0) {
        RETURN_IF_ERROR(Submit(ring, pieces, index));
      } else {
        idle.push_back(index);
      }
    }
    return {};
  }

  Result<void> Submit(io_uring* ring, const std::vector<Piece>& pieces, uint32_t index) {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring);
    const Piece& piece = pieces[index];
    ::io_uring_prep_write(entry, fd_.get(), piece.data, static_cast<unsigned>(piece.bytes),
                          piece.at);
    entry->user_data = index;
    const int submitted = ::io_uring_submit(ring);
    if (submitted < 0) return Failed("cannot write", path_, -submitted);
    ++in_flight_;
    return {};
  }

  const std::span<const std::byte> image_;
  const std::span<const uint64_t> hashes_;
  const std::string path_;
  const DrainOptions options_;
  const bool is_direct_;
  Fd fd_;
  uint32_t in_flight_ = 0;
  bool is_made_ = false;
  bool is_done_ = false;
};

// kNotHere or kNotHere: not this way here.
Result<void> DrainBy(bool has_uring, bool is_direct, std::span<const std::byte> image,
                     std::span<const uint64_t> hashes, const std::string& path,
                     const DrainOptions& options) {
  Writer writer(image, hashes, path, options, is_direct);
  RETURN_IF_ERROR(writer.Open());
  RETURN_IF_ERROR(has_uring ? writer.WriteByUring() : writer.WriteByPwrite());
  return writer.Finish();
}

bool IsNotHere(const Failure& failure) { return failure.kind == FailureKind::kNotHere; }

}  // namespace

Result<DrainReport> Drain(std::span<const std::byte> image, std::span<const uint64_t> hashes,
                          const std::string& path, const DrainOptions& options) {
  if (hashes.size() != ChunkCount(image.size())) {
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
    if (!IsNotHere(status.failure())) return status.failure();
  }
  return status.failure();
}

}  // namespace paceline::ckpt
