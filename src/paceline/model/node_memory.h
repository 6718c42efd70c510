#pragma once

// What the ranks of a node use of its memory, and how much they may use.

#include <cstdint>

namespace paceline {

// Whose limit it is.
enum class MemoryBound {
  kNode,   // of the node's own cgroup, which its agent has made and can raise
  kGroup,  // of a cgroup that something else has made: a container's, a batch job's
  kHost,   // the memory of the host; other programs use it, too
  kTold,   // [memory] node, where no cgroup can be made: the kernel does not hold the ranks to it
};

struct NodeMemory {
  uint64_t used = 0;   // bytes without page cache, at most since the last report
  uint64_t limit = 0;  // bytes
  MemoryBound bound = MemoryBound::kHost;
  bool operator==(const NodeMemory&) const = default;
};

}  // namespace paceline
