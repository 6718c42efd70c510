#pragma once

// How a pool's jobs get nodes and memory. A policy sees what the platform and the job itself can
// measure, never the trace. To add one: a file of its own, a declaration at the end, a row in
// policies.cc.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "paceline/brain/throughput.h"

namespace paceline::sim {

inline constexpr uint32_t kPoolNodesMax = 60;       // of a job, for policies that choose its size
inline constexpr double kPoolMemoryMost = 64;       // GiB of a node
inline constexpr double kPoolDecisionSeconds = 60;  // between two looks at a job

// What a user asks for.
struct PoolAsk {
  uint32_t job = 0;
  uint32_t script = 0;
  uint32_t nodes = 1;
  double memory = 0;  // GiB for each node
};

struct PoolGrant {
  uint32_t nodes = 1;
  double memory = 0;  // GiB for each node
  bool operator==(const PoolGrant&) const = default;
};

// A job that trains, as it is measured at one look.
struct PoolSight {
  PoolAsk ask;
  PoolGrant has;
  double now = 0;           // seconds, of the pool
  double trains_since = 0;  // the last restart, start or change of the size
  double step_seconds = 0;  // mean of the steps since the last look; 0: none ended
  double memory = 0;        // GiB, the largest use of a node since the last look
  double memory_now = 0;    // GiB
  double seconds_left = 0;  // at the present speed
  double next_save = 0;     // seconds until the next checkpoint
  double restart = 0;       // seconds that a restart took, or is taken to take
  uint32_t free_nodes = 0;  // of this job's cores and memory, that nobody has
};

// What a policy does about faults. Times are those of the trace.
struct PoolConduct {
  bool ends_by_fault = false;     // some node faults end the job
  bool repeats_steps = false;     // a node fault costs the steps since the last checkpoint
  bool dies_with_master = false;  // a fault of the master's node ends the job
  bool stops_to_resize = false;   // a change of the size restarts the ranks
  uint32_t kills_most = 0;        // kernel kills, after which the job is given up
};

class PoolPolicy {
 public:
  virtual ~PoolPolicy() = default;
  virtual PoolConduct Conduct() const = 0;
  // What a new job gets: what is granted here, or less, but at least `*least` nodes.
  virtual PoolGrant First(const PoolAsk& ask, uint32_t* least) = 0;
  // What a job gets from now on.
  virtual PoolGrant Look(const PoolSight& sight) = 0;
  // After the kernel has killed the job at its limit. None: the job is given up.
  virtual std::optional<PoolGrant> AfterKill(const PoolSight& sight) = 0;
  // The job has ended. `peak`: the largest use of memory of a node, GiB.
  virtual void Ended(const PoolAsk& ask, double peak) = 0;
};

struct PoolPolicyEntry {
  std::string_view name;
  std::string_view sentence;
  std::unique_ptr<PoolPolicy> (*make)();
};
std::span<const PoolPolicyEntry> AllPoolPolicies();
const PoolPolicyEntry* FindPoolPolicy(std::string_view name);

std::unique_ptr<PoolPolicy> MakeStaticPolicy();
std::unique_ptr<PoolPolicy> MakeDlroverPolicy();
std::unique_ptr<PoolPolicy> MakeOursPolicy();

}  // namespace paceline::sim
