#pragma once

// For tests: a disk that records its operations, so that every state after a crash can be rebuilt.
//
// The crash model follows ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI
// 2018). A crash may lose any subset of the writes to a file since its last sync, and of the name
// changes in a folder since its last sync. It may also lose half of a write. No single file system
// loses that much.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/ckpt/disk/disk.h"

namespace paceline::ckpt {

struct DiskOperation {
  enum class Kind { kName, kUnname, kRename, kWrite, kSize, kSync, kMark };
  Kind kind;
  uint64_t target = 0;  // inode of the file, or of the name's folder: its sync makes this durable
  std::string name;
  std::string to;      // of a rename, in the same folder
  uint64_t inode = 0;  // of the file that gets the name
  uint64_t at = 0;
  std::string bytes;
  uint64_t size = 0;
  bool only_grows = false;  // of kSize
  int mark = 0;             // of kMark: what the caller had been told then
};

class RecordedDisk final : public Disk {
 public:
  // Works below `root`, which must be empty.
  explicit RecordedDisk(std::string root);

  const std::vector<DiskOperation>& operations() const { return operations_; }
  void Mark(int mark) { operations_.push_back({.kind = DiskOperation::Kind::kMark, .mark = mark}); }

  int Open(const std::string& path, int flags) override;
  void Close(int fd) override;
  int64_t Write(int fd, const void* data, uint64_t bytes, uint64_t at) override;
  int Reserve(int fd, uint64_t bytes) override;
  int Truncate(int fd, uint64_t bytes) override;
  int Sync(int fd) override;
  int Rename(const std::string& from, const std::string& to) override;
  int Link(const std::string& from, const std::string& to) override;
  int Unlink(const std::string& path) override;
  int MakeFolder(const std::string& path) override;
  int RemoveFolder(const std::string& path) override;
  std::unique_ptr<WriteQueue> MakeQueue(uint32_t) override { return nullptr; }

  // Indexes of those of the first `count` operations that no sync has made durable.
  std::vector<size_t> PendingOf(size_t count) const;
  // The content of the disk. Equal states compare equal.
  struct Tree {
    std::map<std::string, std::string> files;  // path below the root → bytes
    std::set<std::string> folders;
    bool operator<(const Tree& other) const {
      return std::tie(files, folders) < std::tie(other.files, other.folders);
    }
  };
  // The disk after a crash that follows the first `count` operations. Of the pending operations,
  // only those in `kept` reached the disk.
  Tree After(size_t count, const std::set<size_t>& kept) const;

 private:
  uint64_t InodeOf(const std::string& path) const;
  // A path's folder and name.
  std::pair<uint64_t, std::string> Split(const std::string& path) const;

  const std::string root_;
  std::vector<DiskOperation> operations_;
  std::map<std::string, uint64_t> inodes_;  // by path
  std::map<int, uint64_t> open_;
  uint64_t next_inode_ = 1;
};

}  // namespace paceline::ckpt
