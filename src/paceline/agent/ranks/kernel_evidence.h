#pragma once

// What the kernel itself says about a killed process: the memory cgroup's kill counter and the
// kernel log. Exit status 137 alone proves nothing (anybody may send SIGKILL); these two do.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/fd.h"

namespace paceline::agent {

class KernelEvidence {
 public:
  // `root` is "/" outside tests. Remembers the counter and the log's end as they are now.
  explicit KernelEvidence(std::string root = "/");

  // Both compare with the moment of the last call (or of the construction).
  // True when this cgroup killed a process since then.
  bool TookOomKill();
  // The newest kernel line that names this pid, without its prefix; empty when there is none or
  // the log cannot be read (a container's pids are other numbers than the kernel's).
  std::string LineAbout(pid_t pid);

 private:
  std::optional<uint64_t> ReadKillCount() const;
  void ReadLog();

  std::string root_;
  std::string counter_path_;
  std::optional<uint64_t> kill_count_;
  Fd log_;
  std::string recent_log_;  // bounded: the newest lines only
};

// Path below `root` of the file that counts kills for this process's memory cgroup, v2 or v1, from
// the text of /proc/self/cgroup. Empty when there is none.
std::string OomCounterPath(std::string_view proc_cgroup, const std::string& root);

}  // namespace paceline::agent
