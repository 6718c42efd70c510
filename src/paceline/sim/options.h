#pragma once

// All inputs of one run. A seed draws them (swarm.h). The command line may remove some again, which
// is how a failing run is made smaller.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/job_spec.h"
#include "paceline/sim/swarm/canary.h"

namespace paceline::sim {

// One strike: the fault, the time, and its own seed, so that leaving out a strike does not change
// others.
struct Strike {
  Instant at;
  size_t fault = 0;  // index into AllFaults()
  uint64_t seed = 0;
};

// The script's use of its Checkpointer, and its costs on these hosts.
struct SaveOptions {
  bool is_used = false;  // false: the script saves by itself, instantly
  CheckpointTerms terms;
  int64_t every = 1;  // steps between the script's saves
  // Number of steps after which the script restarts its step count, as at each epoch; a multiple of
  // `every`. 0: never.
  int64_t recount = 0;
  uint32_t slots = 4;                             // of an arena
  bool is_replica = false;                        // data parallel: all ranks hold the same tensors
  bool says_replica = false;                      // and the script says so
  bool has_own_parameters = false;                // pipeline stages, under one name
  Duration save_min = Duration::Milliseconds(1);  // from a step's end until its image is complete
  Duration save_max = Duration::Milliseconds(10);
  Duration write_min = Duration::Milliseconds(5);  // of a shard, to storage
  Duration write_max = Duration::Milliseconds(100);
  Duration copy_min = Duration::Milliseconds(5);  // of an image, between two hosts
  Duration copy_max = Duration::Milliseconds(300);
  uint32_t nodes_per_domain = 1;                  // hosts that may be lost together
  Duration read_min = Duration::Milliseconds(1);  // a rank's state
  Duration read_max = Duration::Milliseconds(100);
};

struct LinkQuality {
  Duration latency_min = Duration::Microseconds(100);
  Duration latency_max = Duration::Microseconds(500);
  uint32_t loss_permille = 0;       // a lost packet is sent again after 200 ms, doubling
  uint32_t duplicate_permille = 0;  // a message arrives twice, or again after the end
  uint32_t reorder_permille = 0;    // it is delayed, so messages of other connections overtake it
};

// How fast the ranks work, if they report step times.
struct PaceOptions {
  bool is_told = false;
  std::optional<uint32_t> slow_rank;  // of every world: its work takes 1.5 times as long
  std::optional<uint32_t> slow_node;  // by index: the same for all its ranks
  uint32_t noise_permille = 0;        // random part of a step's work
};

// What the ranks do in their steps, in thousandths, if their rings tell the time by phase. The rest
// is work.
struct PhaseOptions {
  bool is_told = false;
  uint32_t evaluation = 0;
  uint32_t checkpoint = 0;
  uint32_t data = 0;
};

// The checks of the user, which each host must pass before it is seated.
struct CheckOptions {
  bool is_used = false;
  Duration take_max = Duration::Seconds(7);
  bool has_links = false;  // the links between hosts are tested, too
};

// The parallel plan of the script, and what it needs.
struct PlanOptions {
  bool is_used = false;  // the script calls parallelize, and its ranks report the plan
  std::string summary;   // docs/formats/parallel_plan.md
  std::string wishes;
  // Bytes of each device of a node, by the node's index, over and over.
  std::vector<uint64_t> memory;
};

// What the ranks use of their nodes' memory, if these have a limit (JobSpec::memory_node).
struct MemoryOptions {
  bool is_used = false;
  uint64_t rank_bytes = 0;  // at its start
};

struct Options {
  uint64_t seed = 0;
  JobSpec spec;

  // --- cluster ---
  uint32_t node_count = 3;       // from the start
  uint32_t late_node_count = 1;  // switched on by faults only
  bool local_platform = true;    // a launcher sees deaths on its machine and tells the master
  bool heartbeats_each = true;   // false: undisturbed heartbeats are credited instead of simulated
  LinkQuality link;
  Duration fsync_min = Duration::Microseconds(200);
  Duration fsync_max = Duration::Milliseconds(5);
  Duration power_up = Duration::Seconds(2);  // a reboot

  // --- training script ---
  Duration import_min = Duration::Milliseconds(50);
  Duration import_max = Duration::Milliseconds(500);
  Duration step_time = Duration::Milliseconds(100);
  int64_t checkpoint_every = 10;  // 0: the script saves nothing
  SaveOptions saves;
  PaceOptions pace;
  PhaseOptions phases;
  PlanOptions plan;
  CheckOptions checks;
  MemoryOptions memory;
  int64_t total_steps = 0;            // 0: endless
  bool tells_steps = true;            // pl.step(n); otherwise only the optimizer hook counts
  bool tells_saved = true;            // pl.saved(n)
  uint32_t peer_hang_permille = 200;  // peers of a dead rank hang instead of failing
  Duration peer_exit_max = Duration::Seconds(20);

  // --- course of the run ---
  Duration chaos = Duration::Seconds(60);         // faults strike in this time …
  Duration quiet_bound = Duration::Seconds(240);  // … and this long after, the job must be well
  std::vector<Strike> strikes;
  bool copies_journal = false;              // nodes get copies of the master's journal
  std::optional<uint64_t> crash_at_record;  // the master dies when this record becomes durable
  Canary canary = Canary::kNone;
  uint64_t outside = 0;  // not controlled by the seed; for one canary only

  // The last step that the script saves.
  int64_t LastSave() const { return total_steps / saves.every * saves.every; }
};

// "nodes=3+1 ranks=2 …", the second line of every run.
std::string Describe(const Options& options);

}  // namespace paceline::sim
