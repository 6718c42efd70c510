#pragma once

// An agent's report about itself and its ranks.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/flight_ring.h"
#include "paceline/model/ids.h"
#include "paceline/model/loss_watch.h"

namespace paceline {

// How a rank ended. `kind` comes from the wait status. The other fields are evidence and may be
// empty.
struct ExitCause {
  enum class Kind {
    kExited,      // code is the exit code, 0 = done
    kSignaled,    // code is the signal number
    kUnknown,     // the wait status was lost with the rank's parent
    kNotStarted,  // it was not spawned; headline says why
    kHung         // it lives but hangs; headline says how
  };
  // What its class says of a failure. kNone: no class matched, or an agent that knew no classes.
  enum class Role {
    kNone,
    kCause,    // something broke here
    kCascade,  // another rank or host broke first
    kAdvice    // a hint of a library that says nothing of the cause
  };
  Kind kind = Kind::kUnknown;
  int code = 0;
  bool cgroup_oom = false;  // the kernel reported it; exit 137 alone does not count as OOM
  // The limit of its node's own cgroup, in bytes, if the kernel killed it there; 0: it did not, or
  // the node has no cgroup of its own.
  uint64_t memory_limit = 0;
  bool port_taken = false;  // rank 0 found the store's port taken; not charged
  bool asked = false;       // this agent killed it (new assignment, stop)
  bool is_final = false;    // by its error record, no restart can mend it
  // By its error record, an exception of the script's own code, which comes again unless the code
  // or the host changes: not one of the operating system, of a connection or of a device.
  bool is_repeatable = false;
  std::string fingerprint;  // equal for equal failures, e.g. "ValueError@train.py:31"
  std::string headline;     // one line for people, e.g. "ValueError: bad batch (train.py:31)"
  std::string cause_class;  // of logclass, e.g. "cuda_oom"; "": none matched
  std::string advice;       // of a class of the user's own rules; "": logclass has it
  Role role = Role::kNone;
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
  // Highest step of the whole training: reported by pl.step(), or counted from the optimizer's step
  // at the start of this attempt; -1 = none.
  int64_t step = -1;
  bool is_own_step = false;  // `step` is the optimizer's own count, not told by the script
  int64_t step_count = 0;    // optimizer steps of this attempt, counted by the hook
  int64_t steps_total = 0;   // steps of the whole training, 0 = not known
  int64_t saved_step = -1;   // newest checkpoint reported by pl.saved()
  uint32_t saved_files = 0;  // checkpoints that the script wrote to paths in this attempt
  double loss = 0;           // meaningful when has_loss
  bool has_loss = false;
  BadLoss bad_loss;  // the newest run of bad losses
  // No begin, completion or step of the rank for longer than three of its steps, and at least for
  // three seconds. `phase` is meaningful then.
  bool is_quiet = false;
  RankPhase phase = RankPhase::kStart;
  ExitCause exit;      // meaningful when state is kExited
  Duration ended_for;  // since its end, when this was sent; 0: not known
  bool operator==(const RankReport&) const = default;
};

// What the checks of the user say of a host.
struct NodeCheck {
  enum class State {
    kNone,     // there are no checks, or the node has ranks already
    kRunning,  // they are not over, so the node gets no seat yet
    kPassed,
    kFailed  // a check failed twice
  };
  State state = State::kNone;
  std::string reason;   // of a failure; or what a check that passed says
  std::string numbers;  // a JSON object, its keys are the names of the checks; "": none
  uint32_t round = 0;   // how often the master had asked for them again
  bool is_over() const { return state == State::kPassed || state == State::kFailed; }
  bool operator==(const NodeCheck&) const = default;
};

// A node's whole state, sent at registration; later only the changes.
struct NodeReport {
  std::string name;                // unique in the job
  std::string boot_id;             // a new one means a reboot: all former processes are gone
  uint32_t incarnation = 0;        // of the node, from the wish; a container's restart keeps it
  uint64_t agent_incarnation = 0;  // the agent's start in ns; a higher one replaces a lower one
  int32_t agent_pid = 0;
  std::string address;      // address for other nodes
  std::string host;         // its platform's name of the host; "": hosts cannot be chosen there
  uint32_t slots = 0;       // ranks it can hold (nproc per node)
  uint32_t store_port = 0;  // free port held for the next world's store
  // A port held for each slot, in their order; only in a job of tasks.
  std::vector<uint32_t> task_ports = {};
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::string job_id;             // of the job it was started for; "" from an older release
  uint64_t term = 0;              // the highest of the masters that it has met
  Generation generation;          // of its last completed assignment
  std::vector<RankReport> ranks;  // living ranks and those that exited since the last report
  NodeCheck check;
  // HOST:PORT of its bulk channel, if the links between the hosts are to be tested; "": they are
  // not.
  std::string bulk;
  bool operator==(const NodeReport&) const = default;
};

}  // namespace paceline
