#include "paceline/ckpt/disk/recorded_disk.h"

#include <fcntl.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::ckpt {
namespace {

using Kind = DiskOperation::Kind;

struct Node {
  std::map<std::string, uint64_t> names;
  std::string bytes;
};
using Nodes = std::map<uint64_t, Node>;

void Apply(const DiskOperation& one, Nodes* nodes) {
  Node& target = (*nodes)[one.target];
  switch (one.kind) {
    case Kind::kName: target.names[one.name] = one.inode; return;
    case Kind::kUnname: target.names.erase(one.name); return;
    case Kind::kRename:
      if (const auto from = target.names.find(one.name); from != target.names.end()) {
        target.names[one.to] = from->second;
        target.names.erase(one.name);
      }
      return;
    case Kind::kWrite:
      if (target.bytes.size() < one.at + one.bytes.size()) {
        target.bytes.resize(one.at + one.bytes.size());
      }
      target.bytes.replace(one.at, one.bytes.size(), one.bytes);
      return;
    case Kind::kSize:
      if (!one.only_grows || target.bytes.size() < one.size) target.bytes.resize(one.size);
      return;
    case Kind::kSync:
    case Kind::kMark: return;
  }
}

void Collect(const Nodes& nodes, const std::set<uint64_t>& folders, uint64_t inode,
             const std::string& path, RecordedDisk::Tree* tree) {
  const auto found = nodes.find(inode);
  if (!folders.contains(inode)) {
    tree->files[path] = found == nodes.end() ? "" : found->second.bytes;
    return;
  }
  if (!path.empty()) tree->folders.insert(path);
  if (found == nodes.end()) return;
  for (const auto& [name, child] : found->second.names) {
    Collect(nodes, folders, child, path.empty() ? name : path + "/" + name, tree);
  }
}

}  // namespace

RecordedDisk::RecordedDisk(std::string root) : root_(std::move(root)) {
  inodes_[root_] = next_inode_++;
}

uint64_t RecordedDisk::InodeOf(const std::string& path) const {
  const auto found = inodes_.find(path);
  CHECK(found != inodes_.end(), "a path that this disk has made");
  return found->second;
}

std::pair<uint64_t, std::string> RecordedDisk::Split(const std::string& path) const {
  const size_t slash = path.rfind('/');
  return {InodeOf(path.substr(0, slash)), path.substr(slash + 1)};
}

int RecordedDisk::Open(const std::string& path, int flags) {
  const int fd = Disk::Open(path, flags);
  if (fd < 0) return fd;
  if ((flags & O_CREAT) != 0 && !inodes_.contains(path)) {
    const auto [folder, name] = Split(path);
    const uint64_t inode = next_inode_++;
    inodes_[path] = inode;
    operations_.push_back({.kind = Kind::kName, .target = folder, .name = name, .inode = inode});
  }
  open_[fd] = InodeOf(path);
  return fd;
}

void RecordedDisk::Close(int fd) {
  open_.erase(fd);
  Disk::Close(fd);
}

int64_t RecordedDisk::Write(int fd, const void* data, uint64_t bytes, uint64_t at) {
  const int64_t done = Disk::Write(fd, data, bytes, at);
  if (done <= 0) return done;
  const auto* const text = static_cast<const char*>(data);
  const auto size = static_cast<size_t>(done);
  const size_t half = size / 2;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>(0, half), {half, size}}) {
    if (begin == end) continue;
    operations_.push_back({.kind = Kind::kWrite,
                           .target = open_.at(fd),
                           .at = at + begin,
                           .bytes = std::string(text + begin, text + end)});
  }
  return done;
}

int RecordedDisk::Reserve(int fd, uint64_t bytes) {
  const int status = Disk::Reserve(fd, bytes);
  if (status == 0) {
    operations_.push_back(
        {.kind = Kind::kSize, .target = open_.at(fd), .size = bytes, .only_grows = true});
  }
  return status;
}

int RecordedDisk::Truncate(int fd, uint64_t bytes) {
  const int status = Disk::Truncate(fd, bytes);
  if (status == 0) {
    operations_.push_back({.kind = Kind::kSize, .target = open_.at(fd), .size = bytes});
  }
  return status;
}

int RecordedDisk::Sync(int fd) {
  // Only recorded: the real disk need not be synced.
  operations_.push_back({.kind = Kind::kSync, .target = open_.at(fd)});
  return 0;
}

int RecordedDisk::Rename(const std::string& from, const std::string& to) {
  const int status = Disk::Rename(from, to);
  if (status != 0) return status;
  const auto [folder, name] = Split(from);
  CHECK(Split(to).first == folder, "checkpoints rename within a folder alone");
  operations_.push_back(
      {.kind = Kind::kRename, .target = folder, .name = name, .to = Split(to).second});
  std::map<std::string, uint64_t> moved;
  for (const auto& [path, inode] : inodes_) {
    if (path == to) continue;
    const bool is_below = path == from || path.starts_with(from + "/");
    moved[is_below ? to + path.substr(from.size()) : path] = inode;
  }
  inodes_ = std::move(moved);
  return 0;
}

int RecordedDisk::Link(const std::string& from, const std::string& to) {
  const int status = Disk::Link(from, to);
  if (status != 0) return status;
  const auto [folder, name] = Split(to);
  inodes_[to] = InodeOf(from);
  operations_.push_back(
      {.kind = Kind::kName, .target = folder, .name = name, .inode = inodes_[to]});
  return 0;
}

int RecordedDisk::Unlink(const std::string& path) {
  const int status = Disk::Unlink(path);
  if (status != 0) return status;
  const auto [folder, name] = Split(path);
  operations_.push_back({.kind = Kind::kUnname, .target = folder, .name = name});
  inodes_.erase(path);
  return 0;
}

int RecordedDisk::MakeFolder(const std::string& path) {
  const int status = Disk::MakeFolder(path);
  if (status != 0) return status;
  const auto [folder, name] = Split(path);
  const uint64_t inode = next_inode_++;
  inodes_[path] = inode;
  // A folder is marked by a size that no file has.
  operations_.push_back(
      {.kind = Kind::kName, .target = folder, .name = name, .inode = inode, .size = UINT64_MAX});
  return 0;
}

int RecordedDisk::RemoveFolder(const std::string& path) {
  const int status = Disk::RemoveFolder(path);
  if (status != 0) return status;
  const auto [folder, name] = Split(path);
  operations_.push_back({.kind = Kind::kUnname, .target = folder, .name = name});
  inodes_.erase(path);
  return 0;
}

std::vector<size_t> RecordedDisk::PendingOf(size_t count) const {
  std::vector<size_t> pending;
  std::set<uint64_t> synced;  // by a sync after the examined operation
  for (size_t i = count; i-- > 0;) {
    const DiskOperation& one = operations_[i];
    if (one.kind == Kind::kSync) synced.insert(one.target);
    const bool is_change = one.kind != Kind::kSync && one.kind != Kind::kMark;
    if (is_change && !synced.contains(one.target)) pending.push_back(i);
  }
  std::reverse(pending.begin(), pending.end());
  return pending;
}

RecordedDisk::Tree RecordedDisk::After(size_t count, const std::set<size_t>& kept) const {
  const std::vector<size_t> pending = PendingOf(count);
  Nodes nodes;
  std::set<uint64_t> folders = {1};
  for (size_t i = 0; i < count; ++i) {
    const DiskOperation& one = operations_[i];
    if (one.kind == Kind::kName && one.size == UINT64_MAX) folders.insert(one.inode);
    const bool is_pending = std::binary_search(pending.begin(), pending.end(), i);
    if (!is_pending || kept.contains(i)) Apply(one, &nodes);
  }
  Tree tree;
  Collect(nodes, folders, 1, "", &tree);
  return tree;
}

}  // namespace paceline::ckpt
