#pragma once

// How much room a host has left for arenas. In memory the file system, the host and the cgroup each
// have a limit; on a disk only its file system has one.

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::agent {

struct MemoryRoom {
  const char* name;
  uint64_t bytes;  // UINT64_MAX: no known limit
};
// For files in that folder, which is on a tmpfs.
std::vector<MemoryRoom> RoomsAt(const std::string& folder);
// For files in that folder, which is on a disk.
std::vector<MemoryRoom> DiskRoomAt(const std::string& folder);
// True if the folder is on a network file system or does not exist.
bool IsFarAway(const std::string& folder);

// Returns the first room that is too small for `needed` bytes and a reserve for other programs, as
// text: "/dev/shm has 1.2 GB left, of which 268.4 MB are for others". `held` of the needed bytes
// are taken already. Empty if all rooms are large enough.
std::string Lacking(const std::vector<MemoryRoom>& rooms, uint64_t held, uint64_t needed);

}  // namespace paceline::agent
