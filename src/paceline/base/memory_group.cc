#include "paceline/base/memory_group.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline {
namespace {

constexpr size_t kFileBytes = 64 << 10;
// Version 1 has no word for "no limit": it shows the largest number of whole pages.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

bool Exists(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

std::optional<uint64_t> NumberIn(const std::string& path) {
  return ParseWhole<uint64_t>(Trimmed(ReadText(path, 64)));
}

// The number behind a name, in a file with a name and a number on each line.
std::optional<uint64_t> NumberOf(const std::string& text, std::string_view name) {
  for (std::string_view line : SplitParts(text, "\n")) {
    if (TakePrefix(&line, name) && TakePrefix(&line, " ")) return ParseWhole<uint64_t>(line);
  }
  return std::nullopt;
}

std::optional<MemoryGroup> FirstThatExists(std::string_view path, const std::string& root,
                                           bool is_v2) {
  const auto group = [&](std::string_view mount, std::string_view below) {
    const std::string top = Concat(root, mount);
    return MemoryGroup(below == "/" ? top : Concat(top, below), top, is_v2);
  };
  if (is_v2) {
    for (const std::string_view mount : {"sys/fs/cgroup", "sys/fs/cgroup/unified"}) {
      const MemoryGroup found = group(mount, path);
      // The root of all groups has no limit and no counter, but groups below it may.
      if (Exists(found.folder() + "/memory.events")) return found;
      const bool is_root = path == "/" && Exists(found.folder() + "/cgroup.controllers");
      if (is_root && Exists(found.folder() + "/memory.stat")) return found;
    }
    return std::nullopt;
  }
  // In a container the mount point may be this very group.
  for (const std::string_view below : {path, std::string_view("/")}) {
    const MemoryGroup found = group("sys/fs/cgroup/memory", below);
    if (Exists(found.folder() + "/memory.oom_control")) return found;
  }
  return std::nullopt;
}

}  // namespace

MemoryGroup::MemoryGroup(std::string folder, std::string top, bool is_v2)
    : folder_(std::move(folder)), top_(std::move(top)), is_v2_(is_v2) {}

std::optional<MemoryGroup> MemoryGroup::Of(std::string_view proc_cgroup, const std::string& root) {
  for (std::string_view line : SplitParts(proc_cgroup, "\n")) {
    // "hierarchy:controllers:path"; version 2 has no controllers.
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (!controllers.empty() && controllers != "memory") continue;
    auto found = FirstThatExists(path, root, controllers.empty());
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

std::optional<MemoryGroup> MemoryGroup::OfProcess(int32_t pid, const std::string& root) {
  const std::string name = pid == 0 ? "self" : std::to_string(pid);
  return Of(ReadText(Concat(root, "proc/", name, "/cgroup"), kFileBytes), root);
}

std::optional<uint64_t> MemoryGroup::Used() const {
  const auto all = NumberIn(folder_ + (is_v2_ ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!all.has_value()) return std::nullopt;
  const std::string stat = ReadText(folder_ + "/memory.stat", kFileBytes);
  // Files in memory (tmpfs) count as page cache there, but the kernel cannot drop them.
  const uint64_t files = NumberOf(stat, is_v2_ ? "file" : "total_cache").value_or(0);
  const uint64_t in_memory = NumberOf(stat, is_v2_ ? "shmem" : "total_shmem").value_or(0);
  const uint64_t cache = files > in_memory ? files - in_memory : 0;
  return *all > cache ? *all - cache : 0;
}

std::optional<uint64_t> MemoryGroup::Limit() const {
  const auto limit = NumberIn(folder_ + (is_v2_ ? "/memory.max" : "/memory.limit_in_bytes"));
  return limit.has_value() && *limit < kNoLimit ? limit : std::nullopt;
}

bool MemoryGroup::SetLimit(uint64_t bytes) const {
  const std::string path = folder_ + (is_v2_ ? "/memory.max" : "/memory.limit_in_bytes");
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string text = std::to_string(bytes);
  return file.is_open() &&
         ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::optional<MemoryGroup::Bound> MemoryGroup::Tightest() const {
  std::optional<Bound> tightest;
  for (std::string folder = folder_;;) {
    const MemoryGroup group = At(folder);
    const std::optional<uint64_t> limit = group.Limit();
    const std::optional<uint64_t> used = limit.has_value() ? group.Used() : std::nullopt;
    if (used.has_value()) {
      const Bound bound{*used, *limit};
      if (!tightest.has_value() || bound.room() < tightest->room()) tightest = bound;
    }
    if (folder.size() <= top_.size()) return tightest;
    folder.resize(std::max(folder.rfind('/'), top_.size()));
  }
}

std::optional<uint64_t> MemoryGroup::KillCount() const {
  const std::string name = is_v2_ ? "/memory.events" : "/memory.oom_control";
  return NumberOf(ReadText(folder_ + name, kFileBytes), "oom_kill");
}

std::optional<uint64_t> MemoryGroup::HitCount() const {
  if (is_v2_) return NumberOf(ReadText(folder_ + "/memory.events", kFileBytes), "oom");
  return NumberIn(folder_ + "/memory.failcnt");
}

}  // namespace paceline
