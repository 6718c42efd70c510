#pragma once

// What the kernel says about a killed process: the memory cgroup's kill counter, and the kernel
// log. Exit status 137 proves nothing, because anybody may send SIGKILL; these two do.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/fd.h"

namespace paceline::agent {

class KernelEvidence {
 public:
  // `root` is "/" outside tests. Notes the counter and the log's end.
  explicit KernelEvidence(std::string root = "/");

  // True if this cgroup killed a process since the last call (or construction).
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
  std::optional<uint64_t> ReadKillCount() const;
  void ReadLog();

  std::string root_;
  std::string counter_path_;
  std::optional<uint64_t> kill_count_;
  Fd log_;
  std::string recent_log_;  // the newest lines only
};

// The path below `root` of the kill counter for this process's memory cgroup, v2 or v1, from the
// text of /proc/self/cgroup. Empty if there is none.
std::string OomCounterPath(std::string_view proc_cgroup, const std::string& root);

}  // namespace paceline::agent
