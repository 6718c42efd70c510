#pragma once

// What an agent says of itself and its ranks.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/flight_ring.h"
#include "paceline/model/ids.h"

namespace paceline {

// How a rank ended. `kind` comes from the wait status; the rest is evidence that may be empty.
struct ExitCause {
  enum class Kind {
    kExited,      // code is the exit code, 0 = done
    kSignaled,    // code is the signal number
    kUnknown,     // the wait status was lost together with the rank's parent
    kNotStarted,  // could not be spawned; headline says why
    kHung         // it lives and does not go on; headline says how
  };
  Kind kind = Kind::kUnknown;
  int code = 0;
  bool cgroup_oom = false;  // the kernel said so; exit 137 alone is never called OOM
  bool port_taken = false;  // rank 0 found the store's port taken: nobody's fault, never charged
  bool asked = false;       // the agent itself killed it (assignment change, stop)
  std::string fingerprint;  // same text for the same failure, e.g. "ValueError@train.py:31"
  std::string headline;     // one line for people, e.g. "ValueError: bad batch (train.py:31)"
  bool is_success() const { return kind == Kind::kExited && code == 0; }
  bool operator==(const ExitCause&) const = default;
};

struct RankReport {
  enum class State { kStarting, kRunning, kStepping, kExited };  // kStepping: first step seen
  Generation generation;
  Rank rank;
  uint32_t local_rank = 0;
  int32_t pid = 0;
  State state = State::kStarting;
  // Highest step of the whole training: told by pl.step(), or counted on from the step that the
  // optimizer had when this attempt began; -1 = none.
  int64_t step = -1;
  int64_t step_count = 0;    // optimizer steps of this attempt, counted by the hook
  int64_t saved_step = -1;   // newest checkpoint the script told of by pl.saved()
  uint32_t saved_files = 0;  // checkpoints that the script wrote to a path in this attempt
  double loss = 0;           // meaningful when has_loss
  bool has_loss = false;
  // It has not begun, completed or stepped anything for longer than three of its steps, and at
  // least for three seconds; `phase` is meaningful then.
  bool is_quiet = false;
  RankPhase phase = RankPhase::kStart;
  ExitCause exit;  // meaningful when state is kExited
  bool operator==(const RankReport&) const = default;
};

// The whole truth of one node, sent at registration and, shortened to what changed, afterwards.
struct NodeReport {
  std::string name;          // unique in the job
  std::string boot_id;       // another one: the host rebooted, nothing of before is alive
  uint32_t incarnation = 0;  // of the node, as the wish counts it; a container's restart keeps it
  uint64_t agent_incarnation = 0;  // agent's start, ns; a higher one replaces a lower one
  int32_t agent_pid = 0;
  std::string address;      // where other nodes reach this one
  uint32_t slots = 0;       // ranks it can hold (nproc per node)
  uint32_t store_port = 0;  // free port held for the next world's store
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::string job_id;             // the job it was started for; "" from an older release
  Generation generation;          // of the assignment it last carried out
  std::vector<RankReport> ranks;  // living ranks and those that exited since the last report
  bool operator==(const NodeReport&) const = default;
};

}  // namespace paceline
