#pragma once

// The memory cgroup of a process, of version 2 or 1: what its processes use, what they may use, and
// how many of them the kernel has killed.
//
// A limit of a group holds for all groups below it. So the bound of a process is that group, of its
// own one and those above it, that has the least room left.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

class MemoryGroup {
 public:
  // Bytes.
  struct Bound {
    uint64_t used = 0;  // without the page cache of files, which the kernel can drop
    uint64_t limit = 0;
    uint64_t room() const { return limit > used ? limit - used : 0; }
    bool operator==(const Bound&) const = default;
  };

  // The group of a process, from the text of its /proc/PID/cgroup. `root` is "/" outside tests.
  // None if no memory group can be read.
  static std::optional<MemoryGroup> Of(std::string_view proc_cgroup, const std::string& root);
  // That of a living process. 0: of this one.
  static std::optional<MemoryGroup> OfProcess(int32_t pid, const std::string& root = "/");

  // The folder of the group; `top` is the mount point above it.
  MemoryGroup(std::string folder, std::string top, bool is_v2);

  const std::string& folder() const { return folder_; }
  bool is_v2() const { return is_v2_; }
  // False: it is the group at the mount point, or the one that a container sees there.
  bool IsBelowTop() const { return folder_.size() > top_.size(); }
  // Names the same group with another folder, as that of a group below it.
  MemoryGroup At(std::string folder) const { return {std::move(folder), top_, is_v2_}; }

  // What its processes and those of the groups below it use. None: it cannot be read.
  std::optional<uint64_t> Used() const;
  // Its own limit. None: it has none, or it cannot be read.
  std::optional<uint64_t> Limit() const;
  // False: the limit stays as it was.
  bool SetLimit(uint64_t bytes) const;
  // The bound of a process in this group. None: no group has a limit.
  std::optional<Bound> Tightest() const;
  // How many processes of the group the kernel has killed for want of memory.
  std::optional<uint64_t> KillCount() const;
  // How often a limit of the group itself was reached and nothing could be freed (version 2), or
  // was reached at all (version 1, which does not tell the two apart).
  std::optional<uint64_t> HitCount() const;

 private:
  std::string folder_;
  std::string top_;
  bool is_v2_;
};

}  // namespace paceline
