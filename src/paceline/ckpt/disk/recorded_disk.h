#pragma once

// For tests: a disk that writes down what is done to it, so that every state in which a crash could
// have left it can be made again.
//
// What may be lost, after ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI
// 2018): the bytes of a file since its last sync, the names of a folder since its last sync, each
// by itself and in any order, and a write by halves. That is more than any one file system loses.

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
  uint64_t target = 0;  // what a sync of makes it durable: the file, or the folder of the name
  std::string name;
  std::string to;      // of a rename, in the same folder
  uint64_t inode = 0;  // that gets the name
  uint64_t at = 0;
  std::string bytes;
  uint64_t size = 0;
  bool only_grows = false;  // of kSize
  int mark = 0;             // of kMark: what the caller was told at this point
};

class RecordedDisk final : public Disk {
 public:
  // Everything happens below `root`, which is empty.
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

  // The operations of the first `count` that no sync among them has made durable.
  std::vector<size_t> PendingOf(size_t count) const;
  // One text for each state, such as equal states share.
  struct Tree {
    std::map<std::string, std::string> files;  // path below the root, bytes
    std::set<std::string> folders;
    bool operator<(const Tree& other) const {
      return std::tie(files, folders) < std::tie(other.files, other.folders);
    }
  };
  // After a crash behind the first `count`, of whose pending ones only those in `kept` came
  // through.
  Tree After(size_t count, const std::set<size_t>& kept) const;

 private:
  uint64_t InodeOf(const std::string& path) const;
  // The folder of a path, and the name in it.
  std::pair<uint64_t, std::string> Split(const std::string& path) const;

  const std::string root_;
  std::vector<DiskOperation> operations_;
  std::map<std::string, uint64_t> inodes_;  // by path
  std::map<int, uint64_t> open_;
  uint64_t next_inode_ = 1;
};

}  // namespace paceline::ckpt
