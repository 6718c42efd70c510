#include "paceline/agent/logs/disk_watch.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "paceline/base/fd.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr off_t kErrorRoomBytes = 256 << 10;  // for a message and a traceback of the largest size
constexpr char kErrorRoomName[] = "/room";    // as in python/paceline/_rank/error_record.py

}  // namespace

std::optional<uint64_t> DiskWatch::FreeBytes(const std::string& directory) {
  struct statvfs found {};
  if (::statvfs(directory.c_str(), &found) != 0 || found.f_blocks == 0) return std::nullopt;
  const uint64_t blocks = ::geteuid() == 0 ? found.f_bfree : found.f_bavail;
  return blocks * found.f_frsize;
}

std::optional<Duration> DiskWatch::Look(Instant now, std::optional<uint64_t> free_bytes) {
  if (!free_bytes.has_value()) return std::nullopt;
  if (*free_bytes < kFullBytes) {
    if (!full_since_.has_value()) full_since_ = now;
    return std::nullopt;
  }
  if (!full_since_.has_value()) return std::nullopt;
  const Duration full = now - *full_since_;
  full_since_.reset();
  return full;
}

std::string FullDiskNote(Duration full) {
  return Concat("[paceline: the disk was full for about ", full.seconds(),
                " s, so output of C++ code may be missing here]\n");
}

void ReserveErrorRoom(const std::string& error_dir) {
  const std::string path = error_dir + kErrorRoomName;
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return;
  const int failed = ::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, kErrorRoomBytes);
  if (failed != 0) ::unlink(path.c_str());
}

}  // namespace paceline::agent
