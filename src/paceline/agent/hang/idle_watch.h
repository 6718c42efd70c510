#pragma once

// For how long the processes of a rank have done nothing: neither computed nor moved bytes.
//
// Each look has the CPU time and the bytes since the rank's start, so no activity between two looks
// is missed. Two things use a little CPU and are no work: threads that only look whether there is
// work, as those of gloo and NCCL do, and DataLoader workers that look every 5 s whether their
// parent lives. The kernel does not count the bytes of sockets, but a main thread that sends or
// receives them is woken often.

#include <cstdint>
#include <map>
#include <vector>

#include "paceline/agent/hang/process_look.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/base/instant.h"

namespace paceline::agent {

class IdleWatch {
 public:
  // Notes a look at `process`, and returns for how long it has been idle. The first look of a
  // process begins at zero.
  Duration Note(const ProcessId& process, const ProcessLook& look, int64_t now_ns);
  // Forgets all processes but these.
  void Keep(const std::vector<ProcessId>& processes);

 private:
  struct Seen {
    uint64_t start_time_ticks = 0;
    ProcessLook look;
    int64_t at_ns = 0;
    int64_t idle_since_ns = 0;
  };
  std::map<pid_t, Seen> seen_;
};

}  // namespace paceline::agent
