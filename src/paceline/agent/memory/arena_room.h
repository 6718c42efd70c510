#pragma once

// How much room a host has left for arenas: in memory the file system, the host and the cgroup each
// have their own word on it, on a disk only its file system.

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::agent {

struct MemoryRoom {
  const char* name;
  uint64_t bytes;  // UINT64_MAX: no limit is known
};
// For files in that folder, which is on a tmpfs.
std::vector<MemoryRoom> RoomsAt(const std::string& folder);
// For files in that folder, which is on a disk.
std::vector<MemoryRoom> DiskRoomAt(const std::string& folder);
// Does a network have a part in what lies there, or is it not there at all?
bool IsFarAway(const std::string& folder);

// The first room that is too small for `needed` bytes, of which `held` are taken already, with some
// left for everybody else: "/dev/shm has 1.2 GB left, of
// which 268.4 MB are for others". Empty: all are large enough.
std::string Lacking(const std::vector<MemoryRoom>& rooms, uint64_t held, uint64_t needed);

}  // namespace paceline::agent
