#include "paceline/agent/memory/arena_room.h"

#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <optional>

#include "paceline/base/bytes_text.h"
#include "paceline/base/file_text.h"
#include "paceline/base/memory_group.h"
#include "paceline/base/proc_bytes.h"
#include "paceline/base/remote_file_system.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// Left free for other programs.
constexpr uint64_t kSpareBytes = uint64_t{256} << 20;

uint64_t FreeAt(const std::string& folder) {
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) return UINT64_MAX;
  return uint64_t{found.f_bavail} * found.f_frsize;
}

// How many bytes the memory cgroup of this process has left. None: no cgroup limits it.
std::optional<uint64_t> CgroupRoom() {
  const std::optional<MemoryGroup> group = MemoryGroup::OfProcess(0);
  if (!group.has_value()) return std::nullopt;
  const std::optional<MemoryGroup::Bound> bound = group->Tightest();
  return bound.has_value() ? std::optional(bound->room()) : std::nullopt;
}

}  // namespace

std::vector<MemoryRoom> RoomsAt(const std::string& folder) {
  return {{"/dev/shm", FreeAt(folder)},
          {"the host's memory",
           ProcBytes(ReadText("/proc/meminfo", 64 * 1024), "MemAvailable:").value_or(0)},
          {"the memory of its cgroup", CgroupRoom().value_or(UINT64_MAX)}};
}

std::vector<MemoryRoom> DiskRoomAt(const std::string& folder) {
  return {{"/var/tmp", FreeAt(folder)}};
}

bool IsFarAway(const std::string& folder) {
  struct statfs found {};
  return ::statfs(folder.c_str(), &found) != 0 || IsRemoteFileSystem(found.f_type);
}

std::string Lacking(const std::vector<MemoryRoom>& rooms, uint64_t held, uint64_t needed) {
  for (const MemoryRoom& room : rooms) {
    if (room.bytes == UINT64_MAX || room.bytes + held >= needed + kSpareBytes) continue;
    return Concat(room.name, " has ", BytesText(room.bytes), " left, of which ",
                  BytesText(kSpareBytes), " are for others");
  }
  return "";
}

}  // namespace paceline::agent
