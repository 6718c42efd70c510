#pragma once

// The calls of a file system that checkpoints are made of, in one small class, so that a test can
// fail each of them, or write them down and play them back as a crash would have left them.
//
// What runs for real is SystemDisk(): one system call a method, but that EINTR is not seen. Every
// method answers with a number of 0 or more, or with -errno. It may be called from any thread.
//
// After LevelDB's Env and its fault_injection_test.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::ckpt {

// Writes that the kernel carries out by itself, at most `depth` at a time.
class WriteQueue {
 public:
  virtual ~WriteQueue() = default;
  // 0, or -errno: that write never began. `data` stays until it has come back.
  virtual int Submit(int fd, const void* data, uint64_t bytes, uint64_t at, uint64_t tag) = 0;
  struct Done {
    uint64_t tag = 0;
    int64_t result = 0;  // bytes written, or -errno
  };
  // The next that is done. 0, or -errno: nothing is known of any of them.
  virtual int Wait(Done* done) = 0;
};

struct DiskEntry {
  std::string name;
  // Also a link to one, and a link to nothing: a disk may not be mounted.
  bool is_folder = false;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;  // wall clock of the file system
  uint64_t device = 0;     // of the file system
  bool is_link = false;    // of a listed one: a symbolic link
};

class Disk {
 public:
  virtual ~Disk() = default;
  // A descriptor. `flags` as open(2) takes them; O_CLOEXEC is added, the mode is 0600.
  virtual int Open(const std::string& path, int flags);
  virtual void Close(int fd);
  // At that place of the file; may be short.
  virtual int64_t Write(int fd, const void* data, uint64_t bytes, uint64_t at);
  virtual int64_t Read(int fd, void* data, uint64_t bytes, uint64_t at);
  virtual int64_t SizeOf(int fd);
  // Asks the kernel to stop reading ahead in this file. It is a hint, so an error is ignored.
  virtual void StopReadahead(int fd);
  // Room for so many bytes, whatever is written later. -EOPNOTSUPP where that cannot be had.
  virtual int Reserve(int fd, uint64_t bytes);
  virtual int Truncate(int fd, uint64_t bytes);
  // Of a file its bytes, of a folder its names: durable. After an error nobody knows what is.
  virtual int Sync(int fd);
  virtual int Rename(const std::string& from, const std::string& to);
  // -EEXIST when there is a `to`.
  virtual int Link(const std::string& from, const std::string& to);
  virtual int Unlink(const std::string& path);
  virtual int MakeFolder(const std::string& path);
  virtual int RemoveFolder(const std::string& path);
  virtual int Stat(const std::string& path, DiskEntry* entry);
  // What is in the folder, sorted by name; at most a million entries.
  virtual int List(const std::string& path, std::vector<DiskEntry>* entries);
  // Null: this kernel or container has none.
  virtual std::unique_ptr<WriteQueue> MakeQueue(uint32_t depth);
};

// Lives as long as the process.
Disk* SystemDisk();

// "cannot open PATH: No space left on device". kFull: no room, or no more of a quota. kNotFound,
// kExists, kNotHere (this file system cannot do that), kBusy (it cannot be asked now), else
// kSystem.
Failure DiskFailure(std::string_view what, const std::string& path, int error);

// Whether that file may be opened for reading: a regular file, or a link to one in its own folder.
// kDamaged: a FIFO, a device, a folder, a link that leaves the folder. It says so before anything
// is opened, because to open a FIFO waits for ever, and to open a device may do something. Whatever
// else is wrong with the path is for open to say.
Result<void> CheckReadable(const std::string& path);

// Multiples of a page, as direct writes and shared memory want them.
inline constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t RoundUpToPage(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Closes what it owns on the same disk.
class DiskFile {
 public:
  DiskFile(Disk* disk, int fd) : disk_(disk), fd_(fd) {}
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile() {
    if (fd_ >= 0) disk_->Close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  int error() const { return fd_ < 0 ? -fd_ : 0; }  // why it is not open

 private:
  Disk* const disk_;
  const int fd_;
};

}  // namespace paceline::ckpt
