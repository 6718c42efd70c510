#pragma once

// A full disk under a node's files.
//
// Ranks write their output to files. Python's output on a full disk is counted by the rank itself
// (python/paceline/_rank/output.py). Output of C++ code is lost, and nobody can count it, because
// the failed write(2) is between that code and the kernel. So the agent looks at the disk, and
// notes for how long it was full.

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/base/instant.h"

namespace paceline::agent {

class DiskWatch {
 public:
  // Below this many free bytes the disk counts as full.
  static constexpr uint64_t kFullBytes = 64 << 10;

  // Bytes that this process may still write in that directory; none if it cannot be said.
  static std::optional<uint64_t> FreeBytes(const std::string& directory);

  // Takes the free bytes of a full or healthy disk. Returns for how long the disk was full at the
  // first look that finds room again; else none.
  std::optional<Duration> Look(Instant now, std::optional<uint64_t> free_bytes);

  bool is_full() const { return full_since_.has_value(); }

 private:
  std::optional<Instant> full_since_;
};

// Returns the line that a rank's stderr gets after the disk was full for the time `full`.
std::string FullDiskNote(Duration full);

// Reserves blocks of the disk for the error record of the node's first failed rank, as a file of
// that name beside the records. Does nothing if the file is there already. Without room, or on a
// file system that cannot reserve, there is no such file.
void ReserveErrorRoom(const std::string& error_dir);

}  // namespace paceline::agent
