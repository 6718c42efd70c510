#include "paceline/ckpt/disk/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "paceline/base/retried.h"
#include "paceline/base/text.h"

namespace paceline::ckpt {
namespace {

constexpr size_t kEntriesMax = 1'000'000;

// The path without symbolic links; "" on failure.
std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real == nullptr ? "" : real.get();
}

DiskEntry EntryOf(std::string name, const struct stat& found) {
  return {.name = std::move(name),
          .is_folder = S_ISDIR(found.st_mode),
          .bytes = static_cast<uint64_t>(found.st_size),
          .changed_ns = found.st_mtim.tv_sec * int64_t{1'000'000'000} + found.st_mtim.tv_nsec,
          .device = found.st_dev};
}

class UringQueue final : public WriteQueue {
 public:
  static std::unique_ptr<WriteQueue> Make(uint32_t depth) {
    auto queue = std::make_unique<UringQueue>();
    if (::io_uring_queue_init(depth, &queue->ring_, 0) != 0) return nullptr;
    queue->is_open_ = true;
    return queue;
  }
  ~UringQueue() override {
    if (is_open_) ::io_uring_queue_exit(&ring_);
  }

  int Submit(int fd, const void* data, uint64_t bytes, uint64_t at, uint64_t tag) override {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return -EBUSY;
    ::io_uring_prep_write(entry, fd, data, static_cast<unsigned>(bytes), at);
    entry->user_data = tag;
    const int submitted = ::io_uring_submit(&ring_);
    return submitted < 0 ? submitted : 0;
  }

  int Wait(Done* done) override {
    io_uring_cqe* end = nullptr;
    int waited = 0;
    do {
      waited = ::io_uring_wait_cqe(&ring_, &end);
    } while (waited == -EINTR);
    if (waited != 0) return waited;
    *done = {end->user_data, end->res};
    ::io_uring_cqe_seen(&ring_, end);
    return 0;
  }

 private:
  io_uring ring_;
  bool is_open_ = false;
};

}  // namespace

int Disk::Open(const std::string& path, int flags) {
  return Retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600); });
}

void Disk::Close(int fd) { ::close(fd); }

int64_t Disk::Write(int fd, const void* data, uint64_t bytes, uint64_t at) {
  return Retried([&] { return ::pwrite(fd, data, bytes, static_cast<off_t>(at)); });
}

int64_t Disk::Read(int fd, void* data, uint64_t bytes, uint64_t at) {
  return Retried([&] { return ::pread(fd, data, bytes, static_cast<off_t>(at)); });
}

int64_t Disk::SizeOf(int fd) {
  struct stat found {};
  const int status = Retried([&] { return ::fstat(fd, &found); });
  return status < 0 ? status : int64_t{found.st_size};
}

void Disk::StopReadahead(int fd) { ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); }

int Disk::Reserve(int fd, uint64_t bytes) {
  return Retried([&] { return ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)); });
}

int Disk::Truncate(int fd, uint64_t bytes) {
  return Retried([&] { return ::ftruncate(fd, static_cast<off_t>(bytes)); });
}

int Disk::Sync(int fd) {
  // Not repeated after EINTR: fsync(2) is not interrupted on Linux. After a failed fsync a second
  // one may report success although the data is lost.
  return ::fsync(fd) == 0 ? 0 : -errno;
}

int Disk::Rename(const std::string& from, const std::string& to) {
  return Retried([&] { return ::rename(from.c_str(), to.c_str()); });
}

int Disk::Link(const std::string& from, const std::string& to) {
  return Retried([&] { return ::link(from.c_str(), to.c_str()); });
}

int Disk::Unlink(const std::string& path) {
  return Retried([&] { return ::unlink(path.c_str()); });
}

int Disk::MakeFolder(const std::string& path) {
  return Retried([&] { return ::mkdir(path.c_str(), 0700); });
}

int Disk::RemoveFolder(const std::string& path) {
  return Retried([&] { return ::rmdir(path.c_str()); });
}

int Disk::Stat(const std::string& path, DiskEntry* entry) {
  struct stat found {};
  const int status = Retried([&] { return ::stat(path.c_str(), &found); });
  if (status == 0) *entry = EntryOf(path.substr(path.rfind('/') + 1), found);
  return status;
}

int Disk::List(const std::string& path, std::vector<DiskEntry>* entries) {
  entries->clear();
  DIR* const open = ::opendir(path.c_str());
  if (open == nullptr) return -errno;
  errno = 0;
  while (const dirent* one = ::readdir(open)) {
    if (entries->size() == kEntriesMax) break;
    const std::string name = one->d_name;
    struct stat found {};
    const bool is_itself = name == "." || name == "..";
    // Skips an entry that was removed after it was listed.
    if (!is_itself && ::fstatat(::dirfd(open), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
      const bool is_link = S_ISLNK(found.st_mode);
      const bool is_there = !is_link || ::fstatat(::dirfd(open), name.c_str(), &found, 0) == 0;
      entries->push_back(EntryOf(name, found));
      entries->back().is_folder = entries->back().is_folder || !is_there;
      entries->back().is_link = is_link;
    }
    errno = 0;
  }
  const int error = errno;
  ::closedir(open);
  std::sort(entries->begin(), entries->end(),
            [](const DiskEntry& a, const DiskEntry& b) { return a.name < b.name; });
  return -error;
}

std::unique_ptr<WriteQueue> Disk::MakeQueue(uint32_t depth) { return UringQueue::Make(depth); }

Disk* SystemDisk() {
  static Disk* const kDisk = new Disk;
  return kDisk;
}

Result<void> CheckReadable(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  const bool is_link = S_ISLNK(found.st_mode);
  if (is_link && ::stat(path.c_str(), &found) != 0) return {};
  if (!S_ISREG(found.st_mode)) {
    return Failure{FailureKind::kDamaged, Concat(path, " is no regular file")};
  }
  if (!is_link) return {};
  const size_t slash = path.rfind('/');
  const std::string folder = RealPath(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  const std::string target = RealPath(path);
  const bool is_inside = !folder.empty() && target.substr(0, target.rfind('/')) == folder;
  if (is_inside) return {};
  return Failure{FailureKind::kDamaged, Concat(path, " is a link that leaves its folder")};
}

Failure DiskFailure(std::string_view what, const std::string& path, int error) {
  FailureKind kind = FailureKind::kSystem;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) kind = FailureKind::kFull;
  if (error == ENOENT) kind = FailureKind::kNotFound;
  if (error == EEXIST) kind = FailureKind::kExists;
  constexpr int kAway[] = {ESTALE,   ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH,
                           ENOTCONN, EMFILE,    ENFILE,    ENOMEM};
  if (std::find(std::begin(kAway), std::end(kAway), error) != std::end(kAway)) {
    kind = FailureKind::kBusy;
  }
  if (error == EINVAL || error == EOPNOTSUPP) kind = FailureKind::kNotHere;
  return {kind, Concat(what, " ", path, ": ", std::strerror(error)), error};
}

}  // namespace paceline::ckpt
