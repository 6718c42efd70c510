#include "paceline/server/one_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/status/status.h"
#include "paceline/base/file_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
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

// What a holder of the lock writes: its job, and the boot of its host. Some shared file systems
// report a process of another host as if it were of this one.
struct Holder {
  std::string job;
  std::string boot;
};

std::string BootId() {
  return std::string(Trimmed(ReadText("/proc/sys/kernel/random/boot_id", 64)));
}

Holder HolderIn(int fd) {
  const std::string text = ContentOf(fd);
  const size_t end = std::min(text.find('\n'), text.size());
  return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

std::string LockPath(const std::string& directory, uint32_t server) {
  return Concat(directory, "/server-", server, ".lock");
}

std::string JobPath(const std::string& directory) { return Concat(directory, "/job"); }

// The process that has the lock; 0: none has it, or it is not known.
pid_t HolderOf(int fd) {
  struct flock held = WholeFile();
  const bool is_held = ::fcntl(fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK;
  return is_held ? held.l_pid : 0;
}

absl::Status LockError(std::string_view what, const std::string& path) {
  return absl::InternalError(Concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Fd> BecomeServer(const std::string& directory, uint32_t server,
                                const std::string& job_id) {
  const std::string path = LockPath(directory, server);
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return LockError("write", path);
  bool is_told = false;
  std::string owner;
  for (int look = 0; look < kLooks; ++look) {
    struct flock wanted = WholeFile();
    if (::fcntl(fd.get(), F_SETLK, &wanted) == 0) {
      const std::string text = Concat(job_id, "\n", BootId());
      if (::ftruncate(fd.get(), 0) != 0) return LockError("write", path);
      const auto size = static_cast<ssize_t>(text.size());
      if (::pwrite(fd.get(), text.data(), text.size(), 0) != size) return LockError("write", path);
      return fd;
    }
    if (errno != EAGAIN && errno != EACCES) return LockError("lock", path);
    // The lock's owner has written this soon after it took the lock.
    const Holder holder = HolderIn(fd.get());
    owner = holder.job;
    if (owner == job_id && holder.boot != BootId()) {
      // Its host may be cut off from the master alone. Its agent ends it when the master is heard.
      if (!is_told) LogWarning("earlier_server_elsewhere", {{"lock", path}, {"server", server}});
      is_told = true;
      look = 0;
    } else if (const pid_t pid = HolderOf(fd.get()); pid > 1 && owner == job_id && !is_told) {
      LogWarning("earlier_server_killed", {{"pid", pid}, {"server", server}});
      ::kill(pid, SIGKILL);
      is_told = true;
    }
    if (owner != job_id && !owner.empty() && look >= kLooksAtOthers) break;
    ::usleep(kPauseUs);
  }
  return absl::FailedPreconditionError(
      Concat(path, " is locked by ", owner == job_id ? "an earlier process" : "the job ",
             owner == job_id ? "" : owner, "; a directory of tables belongs to one job at a time"));
}

absl::Status NameJob(const std::string& directory, const std::string& job_id) {
  RETURN_IF_ERROR(MakeDirs(directory, 0700));
  return ReplaceFileDurably(JobPath(directory), Concat(job_id, "\n"), 0600);
}

bool IsOfJob(const std::string& directory, const std::string& job_id) {
  return ReadText(JobPath(directory), 512) == Concat(job_id, "\n");
}

std::string JobThatServes(const std::string& directory) {
  const Fd fd(::open(LockPath(directory, 0).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open() || HolderOf(fd.get()) == 0) return "";
  const std::string job = HolderIn(fd.get()).job;
  return job.empty() ? "an unknown one" : job;
}

}  // namespace paceline::server
