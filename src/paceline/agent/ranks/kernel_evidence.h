#pragma once

// What the kernel says about a killed process: the kill counter of its memory cgroup, and the
// kernel log. Exit status 137 proves nothing, because anybody may send SIGKILL; these two do.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/memory_group.h"

namespace paceline::agent {

class KernelEvidence {
 public:
  // `root` is "/" outside tests. Notes the log's end, and watches this process's own group.
  explicit KernelEvidence(std::string root = "/");

  // Also watches the group of a living rank, which is that of the starter and not always this
  // process's. Kills before this call do not count.
  void Watch(pid_t pid);
  void Watch(const MemoryGroup& group);
  // True if the kernel killed a process of a watched group for want of memory since the last call.
  bool TookOomKill();
  // The newest line of the kernel's log with this pid since construction, without its prefix. A
  // second call does not find that line again: the kernel may have given the pid to another
  // process.
  // "" if there is no such line or the log cannot be read. In a container no line is found, because
  // the kernel's log has other pids.
  std::string LineAbout(pid_t pid);
  // The lines of the last two minutes since construction without their prefixes, except those that
  // LineAbout found. Several deaths may have one of them as their cause. `now_us`: since the boot.
  std::string RecentLines(int64_t now_us);

 private:
  struct Watched {
    MemoryGroup group;
    std::optional<uint64_t> kills;
  };
  void ReadLog();

  std::string root_;
  std::vector<Watched> groups_;
  Fd log_;
  std::string recent_log_;  // the newest lines only
};

}  // namespace paceline::agent
