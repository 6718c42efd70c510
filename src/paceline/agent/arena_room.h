#pragma once

// How much memory a host has left for arenas: the file system, the host and the cgroup each have
// their own word on it.

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

// The first room that is too small for `needed` bytes, of which `held` are taken already, with some
// left for everybody else: "/dev/shm has 1.2 GB left". Empty: all are large enough.
std::string Lacking(const std::vector<MemoryRoom>& rooms, uint64_t held, uint64_t needed);

// "1.2 GB".
std::string Gigabytes(uint64_t bytes);

}  // namespace paceline::agent
