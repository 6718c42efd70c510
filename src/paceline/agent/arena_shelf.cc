#include "paceline/agent/arena_shelf.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "paceline/base/file_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr char kPrefix[] = "rank-";
constexpr char kSuffix[] = ".arena";
// Left free for everybody else.
constexpr uint64_t kSpareBytes = uint64_t{256} << 20;

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(path.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<uint32_t> RankIn(std::string_view name) {
  if (!TakePrefix(&name, kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(std::string_view(kSuffix).size());
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return rank;
}

// "MemAvailable:   12345 kB" of /proc/meminfo; 0 when it is not there.
uint64_t AvailableMemory() {
  const std::string text = ReadText("/proc/meminfo", 64 * 1024);
  constexpr std::string_view kName = "MemAvailable:";
  const size_t at = text.find(kName);
  if (at == std::string::npos) return 0;
  const char* begin = text.data() + at + kName.size();
  while (*begin == ' ') ++begin;
  uint64_t kib = 0;
  std::from_chars(begin, text.data() + text.size(), kib);
  return kib * 1024;
}

// What this cgroup may still use, v2 or v1; nothing when there is no limit.
std::optional<uint64_t> CgroupRoom() {
  const auto number = [](const std::string& path) -> std::optional<uint64_t> {
    const std::string text(Trimmed(ReadText(path, 64)));
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && !text.empty() ? std::optional(value) : std::nullopt;
  };
  for (const auto& [limit, used] :
       {std::pair("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        std::pair("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/memory.usage_in_bytes")}) {
    const auto most = number(limit);
    const auto now = number(used);
    if (most.has_value() && now.has_value()) return *most > *now ? *most - *now : 0;
  }
  return std::nullopt;
}

std::string Gigabytes(uint64_t bytes) {
  return Concat(bytes / 1'000'000'000, ".", bytes / 100'000'000 % 10, " GB");
}

}  // namespace

std::string ArenaRoot(const std::string& job_id) {
  return Concat("/dev/shm/paceline-", ::geteuid(), "/", job_id);
}

std::string ArenaShelf::PathOf(const Place& place) const {
  return Concat(root_, "/", place.node, "/", kPrefix, place.rank, kSuffix);
}

absl::Status ArenaShelf::Prepare(const Place& place) {
  const std::string folder = Concat(root_, "/", place.node);
  RETURN_IF_ERROR(MakeDirs(folder, 0700));
  const std::string user = root_.substr(0, root_.rfind('/'));
  for (const std::string& path : {user, root_, folder}) {
    struct stat found {};
    const bool is_ours = ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                         found.st_uid == ::geteuid() && (found.st_mode & 077) == 0;
    if (!is_ours) {
      return absl::FailedPreconditionError(Concat(path, " is not a folder of ours alone"));
    }
  }
  return absl::OkStatus();
}

uint32_t ArenaShelf::SlotsFor(const Place& place, uint64_t image_bytes, std::string* why) const {
  const std::string folder = Concat(root_, "/", place.node);
  struct statvfs found {};
  uint64_t tmpfs = UINT64_MAX;
  if (::statvfs(folder.c_str(), &found) == 0) tmpfs = uint64_t{found.f_bavail} * found.f_frsize;
  struct {
    const char* name;
    uint64_t room;
  } const rooms[] = {{"/dev/shm", tmpfs},
                     {"the host's memory", AvailableMemory()},
                     {"the memory of its cgroup", CgroupRoom().value_or(UINT64_MAX)}};
  // One that is there already, and is replaced or used again, has its room.
  struct stat present {};
  const bool is_there = ::stat(PathOf(place).c_str(), &present) == 0;
  const uint64_t held = is_there ? static_cast<uint64_t>(present.st_size) : 0;
  for (const uint32_t slots : {3u, 2u}) {
    const uint64_t needed = ckpt::Arena::BytesFor({image_bytes, slots});
    const auto* lacking = std::find_if(std::begin(rooms), std::end(rooms), [&](const auto& one) {
      return one.room != UINT64_MAX && one.room + held < needed + kSpareBytes;
    });
    if (lacking == std::end(rooms)) return slots;
    *why = Concat(lacking->name, " has ", Gigabytes(lacking->room), " left, and ", slots,
                  " images of ", Gigabytes(image_bytes), " need ", Gigabytes(needed));
  }
  return 0;
}

void ArenaShelf::Refresh() {
  std::set<Place> seen;
  for (const std::string& node : NamesIn(root_)) {
    for (const std::string& name : NamesIn(Concat(root_, "/", node))) {
      const std::optional<uint32_t> rank = RankIn(name);
      if (!rank.has_value()) continue;
      const Place place{node, *rank};
      struct stat found {};
      if (::stat(PathOf(place).c_str(), &found) != 0) continue;
      seen.insert(place);
      Open& open = open_[place];
      if (open.arena != nullptr && open.inode == found.st_ino) continue;
      auto arena = ckpt::Arena::Open(PathOf(place), {job_id_, boot_id_, *rank});
      if (!arena.ok()) {
        LogWarning("arena_refused", {{"path", PathOf(place)}, {"why", arena.failure().message}});
        open = {found.st_ino, nullptr};
        continue;
      }
      open = {found.st_ino, *std::move(arena)};
    }
  }
  std::erase_if(open_, [&](const auto& one) { return !seen.contains(one.first); });
}

std::shared_ptr<ckpt::Arena> ArenaShelf::Find(const Place& place) const {
  const auto found = open_.find(place);
  return found == open_.end() ? nullptr : found->second.arena;
}

std::vector<MemoryImage> ArenaShelf::Images() const {
  std::vector<MemoryImage> images;
  for (const auto& [place, open] : open_) {
    if (open.arena == nullptr) continue;
    for (const ArenaImage& image : open.arena->Sealed()) {
      images.push_back({.rank = Rank(place.rank),
                        .place = place.node,
                        .saved = {image.generation, image.step},
                        .world_size = static_cast<uint32_t>(image.world_size),
                        .file_bytes = image.file_bytes,
                        .file_root = image.file_root,
                        .is_replica = (image.flags & kArenaReplica) != 0});
    }
  }
  return images;
}

void ArenaShelf::RemoveAll() {
  open_.clear();
  for (const std::string& node : NamesIn(root_)) {
    const std::string folder = Concat(root_, "/", node);
    for (const std::string& name : NamesIn(folder)) {
      if (name.starts_with(kPrefix)) ::unlink(Concat(folder, "/", name).c_str());
    }
    ::rmdir(folder.c_str());
  }
  ::rmdir(root_.c_str());
}

}  // namespace paceline::agent
