#pragma once

// A user's request, as plain values with defaults. JobSpec is the half for decisions: the core
// reads it and the journal keeps it. LaunchSpec is the half with which an agent starts ranks on its
// own host. It may differ between hosts and holds environment variables, so it never leaves the
// host nor enters the journal.
//
// All durations for which paceline waits are in Timers. The command line's settings table
// (cli/settings/setting.cc) names them, and docs/guides/settings.md is made from that table.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/task.h"

namespace paceline {

struct Timers {
  // --- membership, used by the core and the agents ---
  // An agent reports this often. The master makes it longer, so that it gets at most
  // Budgets::heartbeats_per_second_max in all.
  Duration heartbeat_interval = Duration::Milliseconds(250);
  // Silence after which a node is lost: as long as its loss would cost (the repeated steps, and the
  // restart), at least lost_after. Measured scheduling delays are added. The sum is at most
  // lost_after_max.
  Duration lost_after = Duration::Seconds(2);
  Duration lost_after_max = Duration::Seconds(15);
  // A new master waits this long for the nodes of the running world to reconnect.
  Duration reattach_window = Duration::Seconds(5);
  // Once the minimum is there, the first world waits this long for more nodes, up to the maximum.
  Duration join_window = Duration::Seconds(3);
  // After a node was lost or left, the next world waits this long for its return, or for a spare
  // that is just joining, before it shrinks. 0: shrink at once.
  Duration shrink_after = Duration();

  // --- ranks ---
  // All ranks of a world must report that they run within this time (importing torch from a cold
  // disk takes long). The step that follows has no limit.
  Duration start_timeout = Duration::Seconds(60);
  // Time from the first signal to SIGKILL if a user or a scheduler asked for the stop. torchrun has
  // the same default.
  Duration stop_grace = Duration::Seconds(30);
  // A rank that still exists this long after SIGKILL (stuck in the kernel) is reported. Its node
  // gets no new ranks until it is gone.
  Duration kill_patience = Duration::Seconds(10);
  // After the n-th failure without progress, the next world starts at least this long after the
  // start of the failed one: 0 for the first failure, then restart_delay · 2^(n-2), at most
  // restart_delay_max. With --max-restarts there is no pause.
  Duration restart_delay = Duration::Milliseconds(250);
  Duration restart_delay_max = Duration::Seconds(5);
  // Failures without progress that are further apart than this restart the count.
  Duration restart_window = Duration::Seconds(3600);

  // --- connections ---
  // Pause of an agent or launcher between attempts to reach the master; doubles, with jitter.
  Duration reconnect_delay = Duration::Milliseconds(20);
  Duration reconnect_delay_max = Duration::Seconds(1);
  // How long a command or a joining host waits for a master that does not answer.
  Duration connect_timeout = Duration::Seconds(10);
  // After this time without a master, an agent stops its ranks and leaves; after this time without
  // an agent, a starter ends its ranks. Infinite: never. Long enough for a reboot of the master's
  // host, short enough that no processes are left over for days.
  Duration orphan_after = Duration::Seconds(600);
  // After the job's end the master answers late agents and commands for this long.
  Duration finish_linger = Duration::Milliseconds(500);
  // How long the end of a job, and a closing rank, retry the last step if storage refuses it. A
  // restore waits as long.
  Duration storage_wait = Duration::Seconds(600);

  // --- the launcher on one machine ---
  // If an agent and all its ranks are dead within this time, the node is gone.
  Duration settle = Duration::Milliseconds(50);
  // Pause before a master or agent that died at once is restarted; doubles.
  Duration respawn_delay = Duration::Milliseconds(50);
  Duration respawn_delay_max = Duration::Seconds(2);

  bool operator==(const Timers&) const = default;
};

struct Budgets {
  // Without --max-restarts: number of equal failures in a row without progress after which the job
  // stops.
  uint32_t no_progress_failures = 3;
  // Restarts of a node's processes without progress before the node is replaced.
  uint32_t node_restarts = 2;
  // Generations granted to a node that is the whole job, for restarts without a master.
  uint32_t solo_generations = 64;
  uint32_t heartbeats_per_second_max = 10'000;
  // Connections of one address to the master without a proven token. 0: the master's own limit.
  uint32_t unproven_connections_max = 0;
  bool operator==(const Budgets&) const = default;
};

// When a joining node is taken into a running world.
enum class GrowPolicy {
  kCheckpoint,  // after the next reported checkpoint: no step is lost
  kNow,         // at once; steps since the last checkpoint are repeated
  kNever,       // only when the world is formed anew for another reason
};

// What the master does with what it measures of the job's sizes.
enum class ScaleMode {
  kAdvise,  // tells which size is best
  kAuto,    // changes the size, too
  kOff,     // neither
};

// What the master does about a slow host.
enum class SlowAct {
  kTell,     // nothing but to record it
  kReplace,  // a spare takes its ranks
};

struct JobSpec {
  std::string job_id;  // unique for this user on this host; names the run directory
  std::string name;    // for people; --rdzv-id or --name
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;                // spares not counted
  uint32_t unit = 1;                     // the world's node count is a multiple of it
  uint32_t nproc_per_node = 1;           // ranks a node; nodes with fewer slots are refused
  uint32_t spares = 0;                   // joined nodes to keep beyond nodes_max
  std::optional<uint32_t> max_restarts;  // unset: progress-aware budget; set: hard cap
  GrowPolicy grow = GrowPolicy::kCheckpoint;
  bool replace_nodes = false;  // ask the platform for a replacement of a lost node
  // A platform starts the nodes by the wish (model/wish.h), and only these are accepted. Lost ones
  // are always replaced.
  bool is_placed = false;
  bool only_tells_hangs = false;  // hangs are only reported, no rank is restarted
  // Time after which an absent rank is restarted, instead of its usual one. 0: by what it does
  // (diagnose/deadline.h).
  Duration hang_act_after;
  SlowAct slow_act = SlowAct::kTell;
  // A host that is slow for a shorter time keeps its ranks.
  Duration slow_act_after = Duration::Seconds(50);
  ScaleMode scale = ScaleMode::kAdvise;
  double efficiency_least = 0.6;  // speed that the last node must add, as a part of the first's
  // Bytes that the ranks of a node may use, and to which that is raised at most. 0: no limit; it is
  // never raised.
  uint64_t memory_node = 0;
  uint64_t memory_most = 0;
  TaskSpec tasks;     // instead of a world
  uint64_t seed = 0;  // of all random numbers in the core (jitter)
  Timers timers;
  Budgets budgets;
  // True if a platform starts nodes by the wish.
  bool has_wish() const { return is_placed || replace_nodes; }
  bool operator==(const JobSpec&) const = default;
};

enum class EntryKind {
  kScript,  // python TARGET ARGS…
  kModule,  // python -m TARGET ARGS…
  kExec,    // TARGET ARGS… (--no-python)
};

// torchrun's Std: which streams of a rank. A bit set.
enum class Streams : uint32_t { kNone = 0, kOut = 1, kErr = 2, kAll = 3 };

// One choice for all local ranks, or separate ones for some (`all` is then for the others).
struct StreamChoice {
  Streams all = Streams::kNone;
  std::map<uint32_t, Streams> by_local_rank;
  Streams For(uint32_t local_rank) const {
    const auto it = by_local_rank.find(local_rank);
    return it == by_local_rank.end() ? all : it->second;
  }
  bool operator==(const StreamChoice&) const = default;
};

// The console's output. Ranks always write both streams to files of the run directory.
struct ConsoleSpec {
  // torchrun's --redirects: these streams are only in files.
  StreamChoice redirects;
  // torchrun's --tee: these streams are also on the console.
  StreamChoice tee;
  std::vector<uint32_t> local_ranks_filter;           // empty: all ranks
  std::string line_prefix_template;                   // empty: "node:rank| "
  std::vector<std::string> duplicate_stdout_filters;  // lines with one of these texts are copied
  std::vector<std::string> duplicate_stderr_filters;  // to filtered_stdout.log / …stderr.log
  bool fold = true;                                   // equal lines of several ranks shown once
  bool operator==(const ConsoleSpec&) const = default;
};

struct LaunchSpec {
  EntryKind entry = EntryKind::kScript;
  std::string target;                      // path, module or program
  std::vector<std::string> args;           // untouched
  std::string cwd;                         // of the ranks; absolute
  std::string python;                      // interpreter; absolute
  std::map<std::string, std::string> env;  // added to the agent's own environment
  std::string role = "default";            // ROLE_NAME
  std::string run_id;                      // TORCHELASTIC_RUN_ID
  std::string local_addr;                  // address other nodes reach this one by; "": found out
  std::vector<std::string> relays;         // host:port; hosts reach the master through these
  uint32_t nproc_per_node = 1;
  std::optional<uint32_t> omp_threads;  // unset: OMP_NUM_THREADS of env, else torchrun's rule:
                                        // 1 when a node holds several ranks
  bool warm = true;                     // false: every rank starts a fresh interpreter
  std::vector<std::string> preload;     // modules the starter imports beside what it learnt
  Duration keep_warm;                   // how long the starter outlives the job
  bool virtual_local_rank = false;      // LOCAL_RANK=0 and one visible device a rank
  std::string numa_binding;             // "", node, socket, exclusive or core-complex
  std::string log_dir;                  // torchrun's --log-dir; "": logs/ of the run directory
  uint64_t log_bytes_max = 0;           // a rank's log file; older bytes are given back; 0: any
  uint64_t log_total_bytes_max = 0;     // all logs of the job on this host; 0: any
  uint32_t master_port = 0;             // MASTER_PORT that ranks see; 0: that of the world's store
  int32_t stdin_pid = 0;                // its stdin is that of a job's only rank; 0: /dev/null
  uint64_t stdin_start = 0;             // the start time of that process, as in /proc/PID/stat
  // Run by the master at failures and other news of the job; empty: none.
  std::vector<std::string> notify_command;
  Duration notify_timeout = Duration::Seconds(10);
  // Folder of the history, in which the master keeps what it measured; "": it keeps none.
  std::string history_place;
  // Executables that the agent runs before its node is seated. Absolute.
  std::vector<std::string> checks;
  Duration check_timeout = Duration::Seconds(60);  // for each of them
  // Files of rules that the agent matches before its own when a rank fails. Absolute.
  std::vector<std::string> log_rules;
  // How long the master waits at the job's end for the command's last runs.
  Duration notify_end_wait() const {
    if (notify_command.empty()) return Duration();
    return std::min(notify_timeout, Duration::Seconds(30));
  }
  ConsoleSpec console;
  bool operator==(const LaunchSpec&) const = default;
};

}  // namespace paceline
