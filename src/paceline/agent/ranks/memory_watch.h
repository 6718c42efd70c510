#pragma once

// The memory of a node's ranks: what they use, what they may use, and the cgroup that holds them to
// `[memory] node` where this agent may make one.
//
// The cgroup is a child of this process's own, so that every limit above holds, too. Version 2 does
// not let a group with processes have children with limits; there it is a sibling, if this process
// has no limit of its own that the ranks would leave. The starter puts each rank there before the
// rank runs. The limit is only raised, and never lowered. The kernel keeps it if the agent dies.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/memory_group.h"
#include "paceline/model/node_memory.h"

namespace paceline::agent {

class MemoryWatch {
 public:
  static constexpr int64_t kEveryNs = 1'000'000'000;
  // Without news the use is told this often.
  static constexpr int64_t kTellEveryNs = 10'000'000'000;

  struct Setup {
    std::string job_id;
    std::string node;
    uint64_t limit = 0;      // [memory] node; 0: there is none
    std::string root = "/";  // another one in tests
  };
  explicit MemoryWatch(Setup setup);
  ~MemoryWatch();  // removes the cgroup if no rank is in it
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // The cgroup of the node's ranks; none: the ranks stay in that of their starter.
  const std::optional<MemoryGroup>& group() const { return group_; }
  // The file that takes a process into the cgroup; "": there is none.
  std::string DoorOfGroup() const;
  // Raises the limit of the cgroup to at least that. 0: nothing.
  void Raise(uint64_t limit);
  // The limit of the cgroup, if the kernel has killed a process there since the last call because
  // of it; 0: it has not.
  uint64_t TakeLimitOfKill();
  // What the ranks use, if that is news; at most once every kEveryNs. `ranks`: living ones.
  std::optional<NodeMemory> TakeNews(int64_t now_ns, const std::vector<int32_t>& ranks);

 private:
  std::optional<MemoryGroup> MakeGroup() const;
  std::optional<NodeMemory> Read(const std::vector<int32_t>& ranks) const;

  Setup setup_;
  std::optional<MemoryGroup> group_;
  bool can_raise_ = true;
  std::optional<uint64_t> kills_;
  std::optional<uint64_t> hits_;
  int64_t look_at_ns_ = 0;
  int64_t tell_at_ns_ = 0;
  NodeMemory told_;
};

}  // namespace paceline::agent
