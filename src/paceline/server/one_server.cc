#include "paceline/server/one_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/status/status.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"

namespace paceline::server {
namespace {

constexpr useconds_t kPauseUs = 20'000;
constexpr int kLooks = 500;  // ten seconds: a killed process with many rows gives back its memory
constexpr int kLooksAtOthers = 100;  // two seconds: the servers of a job before this one end

struct flock WholeFile() {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

std::string ContentOf(int fd) {
  std::array<char, 512> bytes{};
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), 0);
  return {bytes.data(), static_cast<size_t>(got < 0 ? 0 : got)};
}

absl::Status LockError(std::string_view what, const std::string& path) {
  return absl::InternalError(Concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Fd> BecomeServer(const std::string& directory, uint32_t server,
                                const std::string& job_id) {
  const std::string path = Concat(directory, "/server-", server, ".lock");
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return LockError("write", path);
  bool is_killed = false;
  std::string owner;
  for (int look = 0; look < kLooks; ++look) {
    struct flock wanted = WholeFile();
    if (::fcntl(fd.get(), F_SETLK, &wanted) == 0) {
      if (::ftruncate(fd.get(), 0) != 0) return LockError("write", path);
      const auto size = static_cast<ssize_t>(job_id.size());
      if (::pwrite(fd.get(), job_id.data(), job_id.size(), 0) != size) {
        return LockError("write", path);
      }
      return fd;
    }
    if (errno != EAGAIN && errno != EACCES) return LockError("lock", path);
    struct flock held = WholeFile();
    // The lock's owner has written its job's id soon after it took the lock.
    owner = ContentOf(fd.get());
    const bool is_known = ::fcntl(fd.get(), F_GETLK, &held) == 0 && held.l_type != F_UNLCK;
    if (is_known && held.l_pid > 1 && owner == job_id && !is_killed) {
      LogWarning("earlier_server_killed", {{"pid", held.l_pid}, {"server", server}});
      ::kill(held.l_pid, SIGKILL);
      is_killed = true;
    }
    if (owner != job_id && !owner.empty() && look >= kLooksAtOthers) break;
    ::usleep(kPauseUs);
  }
  return absl::FailedPreconditionError(
      Concat(path, " is locked by ", owner == job_id ? "an earlier process" : "the job ",
             owner == job_id ? "" : owner, "; a directory of tables belongs to one job at a time"));
}

}  // namespace paceline::server
