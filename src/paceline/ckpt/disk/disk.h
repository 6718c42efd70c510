#pragma once

// The file system calls that checkpoints need, in one small class. A test can fail each call, or
// record the calls and replay them as a crash would have left them.
//
// In production it is SystemDisk(): each method is one system call, repeated after EINTR. Every
// method returns a number of 0 or more, or -errno. Methods may be called from any thread.
//
// After LevelDB's Env and its fault_injection_test.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::ckpt {

// Asynchronous writes by the kernel, at most `depth` at a time.
class WriteQueue {
 public:
  virtual ~WriteQueue() = default;
  // Returns 0, or -errno if the write did not begin. `data` must stay valid until the write is
  // done.
  virtual int Submit(int fd, const void* data, uint64_t bytes, uint64_t at, uint64_t tag) = 0;
  struct Done {
    uint64_t tag = 0;
    int64_t result = 0;  // bytes written, or -errno
  };
  // Waits for the next completed write. Returns 0, or -errno if the state of all writes is unknown.
  virtual int Wait(Done* done) = 0;
};

struct DiskEntry {
  std::string name;
  // True also for a link to a folder and for a dangling link, whose disk may not be mounted.
  bool is_folder = false;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;  // wall clock of the file system
  uint64_t device = 0;     // of the file system
  bool is_link = false;    // of a listed entry: a symbolic link
};

class Disk {
 public:
  virtual ~Disk() = default;
  // Opens a file; returns its descriptor. `flags` as for open(2); adds O_CLOEXEC. New files have
  // mode 0600.
  virtual int Open(const std::string& path, int flags);
  virtual void Close(int fd);
  // Writes at offset `at`; may write less than `bytes`.
  virtual int64_t Write(int fd, const void* data, uint64_t bytes, uint64_t at);
  virtual int64_t Read(int fd, void* data, uint64_t bytes, uint64_t at);
  virtual int64_t SizeOf(int fd);
  // Asks the kernel to stop reading ahead in this file. It is a hint, so an error is ignored.
  virtual void StopReadahead(int fd);
  // Reserves room in the file for later writes. -EOPNOTSUPP if the file system cannot.
  virtual int Reserve(int fd, uint64_t bytes);
  virtual int Truncate(int fd, uint64_t bytes);
  // Makes a file's bytes, or a folder's names, durable. After an error their state is unknown.
  virtual int Sync(int fd);
  virtual int Rename(const std::string& from, const std::string& to);
  // -EEXIST if `to` exists.
  virtual int Link(const std::string& from, const std::string& to);
  virtual int Unlink(const std::string& path);
  virtual int MakeFolder(const std::string& path);
  virtual int RemoveFolder(const std::string& path);
  virtual int Stat(const std::string& path, DiskEntry* entry);
  // The entries of a folder, sorted by name; at most a million.
  virtual int List(const std::string& path, std::vector<DiskEntry>* entries);
  // Null if this kernel or container has none.
  virtual std::unique_ptr<WriteQueue> MakeQueue(uint32_t depth);
};

// The real disk. Lives as long as the process.
Disk* SystemDisk();

// A failure such as "cannot open PATH: No space left on device". kFull: no room or no quota.
// kNotFound, kExists, kNotHere (the file system does not support it), kBusy (it does not answer
// now), else kSystem.
Failure DiskFailure(std::string_view what, const std::string& path, int error);

// Whether the file may be opened for reading: a regular file, or a link to one in the same folder.
// kDamaged: a FIFO, a device, a folder, or a link that leaves the folder. Checked before the open,
// because opening a FIFO blocks and opening a device may have effects. Other errors are left to
// open.
Result<void> CheckReadable(const std::string& path);

// A page: the unit of direct writes and shared memory.
inline constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t RoundUpToPage(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// A file that is closed at the end of its scope.
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
