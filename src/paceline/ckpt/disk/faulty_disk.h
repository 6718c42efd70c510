#pragma once

// For tests: a disk whose call number n fails.
//
// After LevelDB's fault_injection_test.

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "paceline/ckpt/disk/disk.h"

namespace paceline::ckpt {

struct DiskFault {
  int error = 0;               // errno of the failing call; 0: a short read or write
  uint64_t call = UINT64_MAX;  // which call fails, counted from 0
  bool is_lasting = false;     // every later call fails, too
};

class FaultyDisk final : public Disk {
 public:
  explicit FaultyDisk(DiskFault fault) : fault_(fault) {}

  uint64_t calls() const { return calls_; }

  // Drops O_DIRECT, which some tmpfs refuse. So tests run the code for direct writes on every file
  // system.
  int Open(const std::string& path, int flags) override {
    return Fails() ? -fault_.error : Disk::Open(path, flags & ~O_DIRECT);
  }
  int64_t Write(int fd, const void* data, uint64_t bytes, uint64_t at) override {
    const bool is_hit = Hits();
    if (is_hit && fault_.error != 0) return -fault_.error;
    return Disk::Write(fd, data, is_hit ? Half(bytes) : bytes, at);
  }
  int64_t Read(int fd, void* data, uint64_t bytes, uint64_t at) override {
    const bool is_hit = Hits();
    if (is_hit && fault_.error != 0) return -fault_.error;
    return Disk::Read(fd, data, is_hit ? Half(bytes) : bytes, at);
  }
  int64_t SizeOf(int fd) override { return Fails() ? -fault_.error : Disk::SizeOf(fd); }
  int Reserve(int fd, uint64_t bytes) override {
    return Fails() ? -fault_.error : Disk::Reserve(fd, bytes);
  }
  int Truncate(int fd, uint64_t bytes) override {
    return Fails() ? -fault_.error : Disk::Truncate(fd, bytes);
  }
  int Sync(int fd) override { return Fails() ? -fault_.error : Disk::Sync(fd); }
  int Rename(const std::string& from, const std::string& to) override {
    return Fails() ? -fault_.error : Disk::Rename(from, to);
  }
  int Link(const std::string& from, const std::string& to) override {
    return Fails() ? -fault_.error : Disk::Link(from, to);
  }
  int Unlink(const std::string& path) override {
    return Fails() ? -fault_.error : Disk::Unlink(path);
  }
  int MakeFolder(const std::string& path) override {
    return Fails() ? -fault_.error : Disk::MakeFolder(path);
  }
  int RemoveFolder(const std::string& path) override {
    return Fails() ? -fault_.error : Disk::RemoveFolder(path);
  }
  int Stat(const std::string& path, DiskEntry* entry) override {
    return Fails() ? -fault_.error : Disk::Stat(path, entry);
  }
  int List(const std::string& path, std::vector<DiskEntry>* entries) override {
    return Fails() ? -fault_.error : Disk::List(path, entries);
  }
  // The queue writes through this disk, so its writes fail in the same way.
  std::unique_ptr<WriteQueue> MakeQueue(uint32_t) override { return std::make_unique<Queue>(this); }

 private:
  class Queue final : public WriteQueue {
   public:
    explicit Queue(FaultyDisk* disk) : disk_(disk) {}
    int Submit(int fd, const void* data, uint64_t bytes, uint64_t at, uint64_t tag) override {
      done_.push_back({tag, disk_->Write(fd, data, bytes, at)});
      return 0;
    }
    int Wait(Done* done) override {
      *done = done_.front();
      done_.pop_front();
      return 0;
    }

   private:
    FaultyDisk* const disk_;
    std::deque<Done> done_;
  };

  // Half of the bytes; whole pages for direct writes.
  static uint64_t Half(uint64_t bytes) {
    const uint64_t half = std::max<uint64_t>(bytes / 2, 1);
    return bytes % kPageBytes == 0 ? RoundUpToPage(half) : half;
  }
  bool Hits() {
    const uint64_t call = calls_++;
    return call == fault_.call || (fault_.is_lasting && call > fault_.call);
  }
  bool Fails() { return Hits() && fault_.error != 0; }

  const DiskFault fault_;
  uint64_t calls_ = 0;
};

}  // namespace paceline::ckpt
