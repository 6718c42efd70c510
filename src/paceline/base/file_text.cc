#include "paceline/base/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "paceline/base/fd.h"
#include "paceline/base/text.h"

namespace paceline {
namespace {

// Most files are far smaller than their limit, and those in /proc do not report a size.
constexpr size_t kFirstBytes = size_t{16} << 10;

std::string ReadFrom(int fd, off_t offset, size_t bytes_max) {
  std::string text(std::min(kFirstBytes, bytes_max), '\0');
  size_t size = 0;
  while (size < bytes_max) {
    if (size == text.size()) text.resize(std::min(bytes_max, 2 * size));
    const ssize_t got = ::pread(fd, text.data() + size, text.size() - size, offset + size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

absl::Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return absl::ErrnoToStatus(errno, Concat("cannot write ", path));
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Makes the names in the folder of `path` durable.
absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return absl::ErrnoToStatus(errno, Concat("cannot open ", folder));
  // Some file systems cannot sync a folder, and answer EINVAL. There is nothing more to do there.
  if (::fsync(fd.get()) == 0 || errno == EINVAL) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, Concat("cannot sync ", folder));
}

absl::Status Replace(const std::string& path, std::string_view text, mode_t mode, bool is_durable) {
  // A name of its own, because hosts that share the folder may have processes of equal numbers.
  std::string temporary = path + ".XXXXXX";
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.is_open()) return absl::ErrnoToStatus(errno, Concat("cannot create a file for ", path));
  absl::Status status = WriteAll(fd.get(), text, temporary);
  constexpr mode_t kModeMade = 0600;
  if (status.ok() && mode != kModeMade && ::fchmod(fd.get(), mode) != 0) {
    status = absl::ErrnoToStatus(errno, Concat("cannot set the mode of ", temporary));
  }
  if (status.ok() && is_durable && ::fsync(fd.get()) != 0) {
    status = absl::ErrnoToStatus(errno, Concat("cannot sync ", temporary));
  }
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, Concat("cannot replace ", path));
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace

// O_NONBLOCK: a pipe in the place of a file would block for ever. It reads as empty.
std::string ReadText(const std::string& path, size_t bytes_max) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd.is_open() ? ReadFrom(fd.get(), 0, bytes_max) : std::string();
}

std::string ReadOwnText(const std::string& path, size_t bytes_max) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat file {};
  struct stat folder {};
  if (!fd.is_open() || ::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode)) return "";
  const bool is_own = file.st_uid == ::geteuid() || (::stat(FolderOf(path).c_str(), &folder) == 0 &&
                                                     file.st_uid == folder.st_uid);
  return is_own ? ReadFrom(fd.get(), 0, bytes_max) : "";
}

std::string ReadTail(const std::string& path, size_t bytes_max) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return std::string();
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  return ReadFrom(fd.get(), std::max<off_t>(0, size - static_cast<off_t>(bytes_max)), bytes_max);
}

absl::Status ReplaceFile(const std::string& path, std::string_view text, mode_t mode) {
  return Replace(path, text, mode, /*is_durable=*/false);
}

absl::Status ReplaceFileDurably(const std::string& path, std::string_view text, mode_t mode) {
  absl::Status status = Replace(path, text, mode, /*is_durable=*/true);
  return status.ok() ? SyncFolderOf(path) : status;
}

absl::Status WriteNamedFile(const std::string& path, std::string_view text, mode_t mode) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.is_open()) return absl::ErrnoToStatus(errno, Concat("cannot write ", path));
    return WriteAll(fd.get(), text, path);
  }
  std::error_code none;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, none);
  return ReplaceFile(none ? path : real.string(), text, mode);
}

absl::Status MakeDirs(const std::string& path, mode_t mode) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string prefix = path.substr(0, slash);
    if (::mkdir(prefix.c_str(), mode) != 0 && errno != EEXIST) {
      const int why = errno;
      // A parent that exists although mkdir failed (EROFS, EACCES on "/") is no error.
      struct stat found {};
      if (::stat(prefix.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
        return absl::ErrnoToStatus(why, Concat("cannot make directory ", prefix));
      }
    }
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

}  // namespace paceline
