#pragma once

// The two halves of a job's state; see job.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/model/ids.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/node.h"
#include "paceline/model/world.h"

namespace paceline::core {

enum class Phase { kEmpty, kWaiting, kStarting, kRunning, kStopping, kFinished };
std::string_view PhaseName(Phase phase);

struct NodeState {
  enum class Status { kSpare, kSeated, kLost, kLeft, kEvicted };
  NodeId id;
  std::string name;
  std::string boot_id;
  std::string address;
  uint32_t slots = 0;
  Status status = Status::kSpare;
  uint32_t failures_without_progress = 0;
  std::string reason;  // of the last change of status
  bool operator==(const NodeState&) const = default;
};
std::string_view NodeStatusName(NodeState::Status status);

// Durable: fold of the records, compared field by field by the checker `journal_folds`.
struct JobState {
  Phase phase = Phase::kEmpty;
  JobSpec spec;
  uint64_t master_incarnation = 0;
  std::map<NodeId, NodeState> nodes;
  std::optional<World> world;      // current or, between worlds, none
  World last_world;                // seats to keep when the next one is formed
  Generation generation;           // highest ever used, granted blocks included
  Generation solo_last;            // end of the block granted with the current world
  uint32_t restart_count = 0;
  uint32_t charged_failures = 0;   // against --max-restarts
  uint32_t failures_without_progress = 0;
  std::string last_fingerprint;    // of the last charged failure, with its step
  int64_t last_failure_step = -1;
  uint32_t same_failure_count = 0; // in a row, without progress
  int64_t step_max = -1;           // highest step known to be reached when last recorded
  int64_t step_count_max = 0;      // most hook-counted steps of one attempt since progress
  std::string waiting_for;
  int exit_code = 0;
  std::string final_reason;
  RecordSeq last_seq;
  Instant last_record_at;
  Instant phase_since;
  bool operator==(const JobState&) const = default;
};

// Volatile: what this master process hears of a node.
struct NodeLink {
  std::optional<ConnectionId> connection;
  Instant last_heard;
  Duration loop_delay;
  Generation carried_out;          // generation of the assignment the agent last carried out
  uint32_t store_port = 0;
  uint64_t agent_incarnation = 0;
  int32_t agent_pid = 0;
  std::map<uint32_t, RankReport> ranks;  // by local rank, of the newest generation reported
  Assignment told;                 // what it was last told
};

}  // namespace paceline::core
