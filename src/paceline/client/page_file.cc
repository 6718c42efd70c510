#include "paceline/client/page_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string_view>

namespace paceline::client {
namespace {

constexpr size_t kFileBytesMax = PageBytes(kPageSlotsMax);

Failure Refused(const std::string& path, std::string_view why) {
  return {.kind = FailureKind::kNotAPage,
          .message = "progress page " + path + ": " + std::string(why)};
}

Failure SystemRefused(const std::string& path, int error_number) {
  return {.kind = FailureKind::kSystem,
          .message = "progress page " + path,
          .error_number = error_number};
}

}  // namespace

Result<PageFile> PageFile::Open(const std::string& path, PageAccess access) {
  const bool writable = access == PageAccess::kWrite;
  const int fd = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return SystemRefused(path, errno);
  struct stat file;
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
    close(fd);
    return Refused(path, "not a regular file");
  }
  const auto size_bytes = static_cast<size_t>(file.st_size);
  if (size_bytes < kPageHeaderBytes || size_bytes > kFileBytesMax) {
    close(fd);
    return Refused(path, "the file's size is not that of a page");
  }
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  const int map_errno = errno;
  close(fd);
  if (memory == MAP_FAILED) {
    return SystemRefused(path, map_errno);
  }
  PageFile page(memory, size_bytes);
  std::string_view why;
  if (CheckPage({static_cast<const std::byte*>(memory), size_bytes}, &why) == nullptr) {
    return Refused(path, why);
  }
  return page;
}

PageFile& PageFile::operator=(PageFile&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

PageFile::~PageFile() {
  if (memory_ != nullptr) munmap(memory_, size_bytes_);
}

Result<PageSlot*> PageFile::Slot(uint32_t index) const {
  auto& page = *static_cast<PageHeader*>(memory_);
  if (index >= page.slot_count || PageBytes(index + 1) > size_bytes_) {
    return Failure{.kind = FailureKind::kBadSlot,
                   .message = "the progress page has no slot " + std::to_string(index)};
  }
  return &SlotOf(page, index);
}

int64_t MonotonicNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace paceline::client
