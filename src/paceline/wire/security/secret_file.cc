#include "paceline/wire/security/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/model/problem.h"

namespace paceline::wire {
namespace {

absl::Status Errno(const std::string& what) {
  const int code = errno;
  return MakeStatus(absl::ErrnoToStatusCode(code), what + ": " + std::strerror(code));
}

absl::Status CheckOwner(int fd, const std::string& path) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return Errno(path);
  if (S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return ToStatus(absl::StatusCode::kPermissionDenied,
                  {.code = "PL-E103",
                   .what = "a secret file is readable by others",
                   .where = path,
                   .why = "it must be a regular file of this user with mode 0600",
                   .fix = "chmod 600 " + path});
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path, size_t bytes_max) {
  RETURN_IF_ERROR(CheckOwner(fd, path));
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Errno(path);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > bytes_max) {
      return MakeStatus(absl::StatusCode::kInvalidArgument, path + " is too large");
    }
  }
}

}  // namespace

absl::Status WriteSecretFile(const std::string& path, std::string_view text) {
  return ReplaceFileDurably(path, text, 0600);
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Errno(path);
  absl::StatusOr<std::string> text = ReadAll(fd, path, bytes_max);
  close(fd);
  return text;
}

}  // namespace paceline::wire
