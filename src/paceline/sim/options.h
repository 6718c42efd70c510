#pragma once

// Everything that one run depends on. A seed draws all of it (swarm.h); the command line may take
// some of it away again, which is how a failing run is made smaller.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/job_spec.h"
#include "paceline/sim/canary.h"

namespace paceline::sim {

// One blow: which fault, when, and its own seed, so that leaving out one blow changes no other.
struct Strike {
  Instant at;
  size_t fault = 0;  // index into AllFaults()
  uint64_t seed = 0;
};

struct LinkQuality {
  Duration latency_min = Duration::Microseconds(100);
  Duration latency_max = Duration::Microseconds(500);
  uint32_t loss_permille = 0;       // a lost packet is sent again 200 ms later, doubling
  uint32_t duplicate_permille = 0;  // the message arrives twice, or again after the end
  uint32_t reorder_permille = 0;    // it is held up, so those of other connections overtake it
};

struct Options {
  uint64_t seed = 0;
  JobSpec spec;

  // --- cluster ---
  uint32_t node_count = 3;       // hosts that are there from the start
  uint32_t late_node_count = 1;  // more hosts, which only a fault switches on
  bool local_platform = true;    // a launcher sees deaths on its machine and tells the master
  bool heartbeats_each = true;   // false: undisturbed heartbeats are credited, not simulated
  LinkQuality link;
  Duration fsync_min = Duration::Microseconds(200);
  Duration fsync_max = Duration::Milliseconds(5);
  Duration power_up = Duration::Seconds(2);  // a reboot

  // --- training script ---
  Duration import_min = Duration::Milliseconds(50);
  Duration import_max = Duration::Milliseconds(500);
  Duration step_time = Duration::Milliseconds(100);
  int64_t checkpoint_every = 10;      // 0: the script saves nothing
  int64_t total_steps = 0;            // 0: endless
  bool tells_steps = true;            // pl.step(n); otherwise only the optimizer hook counts
  bool tells_saved = true;            // pl.saved(n)
  uint32_t peer_hang_permille = 200;  // peers of a dead rank hang instead of failing
  Duration peer_exit_max = Duration::Seconds(20);

  // --- course of the run ---
  Duration chaos = Duration::Seconds(60);         // faults strike in this time …
  Duration quiet_bound = Duration::Seconds(240);  // … and this long after, all must be well
  std::vector<Strike> strikes;
  std::optional<uint64_t> crash_at_record;  // the master dies when this record becomes durable
  Canary canary = Canary::kNone;
  uint64_t outside = 0;  // what no seed controls; only a canary looks at it
};

// "nodes=3+1 ranks=2 …", the second line of every run.
std::string Describe(const Options& options);

}  // namespace paceline::sim
