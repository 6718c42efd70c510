#pragma once

// What a user asked for, as plain values with their defaults. JobSpec is the half that decisions
// need: the core reads it and the journal keeps it. LaunchSpec is the half that an agent needs to
// start ranks on its own host: it may differ from host to host, holds environment variables, and
// therefore never leaves the host nor enters the journal.
//
// Every duration that anything in paceline waits for stands in Timers; the command line's settings
// table (cli/settings/settings.cc) names each of them, and the table in docs/guides/settings.md is
// made from it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"

namespace paceline {

struct Timers {
  // --- membership, used by the core and the agents ---
  // An agent reports this often; the master stretches it so that it hears at most
  // Budgets::heartbeats_per_second_max in all.
  Duration heartbeat_interval = Duration::Milliseconds(250);
  // Silence after which a node is lost: as long as going on without it would cost (the steps that
  // are done again, and the restart), at least lost_after. Scheduling delays that were measured are
  // added, and all of it is at most lost_after_max.
  Duration lost_after = Duration::Seconds(2);
  Duration lost_after_max = Duration::Seconds(15);
  // A new master waits this long for the nodes of the running world to attach again.
  Duration reattach_window = Duration::Seconds(5);
  // Once the minimum is there, the first world waits this long for more nodes, up to the maximum.
  Duration join_window = Duration::Seconds(3);
  // After a node was lost or left, the next world waits this long for its return or for a spare
  // that is just joining, before it shrinks. 0: shrink at once.
  Duration shrink_after = Duration();

  // --- ranks ---
  // All ranks of a world must have reported that they run within this time (an import of torch on
  // a cold disk takes long); the step that follows has no limit.
  Duration start_timeout = Duration::Seconds(60);
  // From the first signal to SIGKILL when a user or a scheduler asked for the stop. torchrun's
  // default, too.
  Duration stop_grace = Duration::Seconds(30);
  // A rank that still exists this long after SIGKILL (stuck in the kernel) is reported, and its
  // node gets no new ranks until it is gone.
  Duration kill_patience = Duration::Seconds(10);
  // The world after the n-th failure without progress starts at least this long after the start of
  // the one that failed: 0 for the first, then restart_delay · 2^(n-2), at most restart_delay_max.
  // With --max-restarts there is no pause.
  Duration restart_delay = Duration::Milliseconds(250);
  Duration restart_delay_max = Duration::Seconds(5);
  // Failures without progress that are further apart than this start the count again.
  Duration restart_window = Duration::Seconds(3600);

  // --- connections ---
  // An agent's or launcher's pause between attempts to reach the master, doubling, with jitter.
  Duration reconnect_delay = Duration::Milliseconds(20);
  Duration reconnect_delay_max = Duration::Seconds(1);
  // How long a command or a joining host waits for a master that does not answer at all.
  Duration connect_timeout = Duration::Seconds(10);
  // An agent without a master for this long stops its ranks and leaves; ranks without an agent for
  // this long are ended by their starter. Infinite: never. Long enough for a host of the master to
  // be rebooted, short enough that nobody finds processes of last week.
  Duration orphan_after = Duration::Seconds(600);
  // When the job is over the master answers late agents and commands for this long.
  Duration finish_linger = Duration::Milliseconds(500);
  // How long the end of a job, and a rank that closes, try to bring the last step to a storage that
  // refuses it. A restore waits as long.
  Duration storage_wait = Duration::Seconds(600);

  // --- the launcher on one machine ---
  // A dead agent whose ranks are dead too within this time means that the node is gone.
  Duration settle = Duration::Milliseconds(50);
  // Pause before a master or agent that died at once is started again, doubling.
  Duration respawn_delay = Duration::Milliseconds(50);
  Duration respawn_delay_max = Duration::Seconds(2);

  bool operator==(const Timers&) const = default;
};

struct Budgets {
  // Without --max-restarts: stop after so many equal failures in a row without progress.
  uint32_t no_progress_failures = 3;
  // Restart a node's processes at most this often without progress before it is replaced.
  uint32_t node_restarts = 2;
  // Generations granted to a node that holds the whole job, for restarts without a master.
  uint32_t solo_generations = 64;
  uint32_t heartbeats_per_second_max = 10'000;
  // Connections of one address to the master that have not shown the token yet. 0: the master's own
  // choice.
  uint32_t unproven_connections_max = 0;
  bool operator==(const Budgets&) const = default;
};

// When a node that joins a running world is taken in.
enum class GrowPolicy {
  kCheckpoint,  // after the next checkpoint that the job tells of: no step is thrown away
  kNow,         // at once; steps since the last checkpoint are redone
  kNever,       // only when the world is formed anew for another reason
};

struct JobSpec {
  std::string job_id;  // unique for this user on this host; names the run directory
  std::string name;    // for people; --rdzv-id or --name
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;                // spares not counted
  uint32_t unit = 1;                     // the world's node count is a multiple of it
  uint32_t nproc_per_node = 1;           // ranks a node; a node that offers less is refused
  uint32_t spares = 0;                   // nodes to keep joined beyond nodes_max
  std::optional<uint32_t> max_restarts;  // unset: progress-aware budget; set: hard cap
  GrowPolicy grow = GrowPolicy::kCheckpoint;
  bool replace_nodes = false;  // ask the platform for a new node when one is lost
  // A platform starts the nodes as the wish says (model/wish.h); no other one is taken in. A lost
  // one is always replaced.
  bool is_placed = false;
  bool only_tells_hangs = false;  // no rank is restarted because it hangs
  // An absent rank is restarted after so long, where it would be after another time; 0: by what it
  // does (diagnose/deadline.h).
  Duration hang_act_after;
  uint64_t seed = 0;  // of everything the core draws (jitter)
  Timers timers;
  Budgets budgets;
  // Somebody starts nodes as the wish says.
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

// One choice for all local ranks, or choices for some of them (then `all` holds for the others).
struct StreamChoice {
  Streams all = Streams::kNone;
  std::map<uint32_t, Streams> by_local_rank;
  Streams For(uint32_t local_rank) const {
    const auto it = by_local_rank.find(local_rank);
    return it == by_local_rank.end() ? all : it->second;
  }
  bool operator==(const StreamChoice&) const = default;
};

// What the console shows. Ranks always write both streams to files of the run directory.
struct ConsoleSpec {
  // torchrun's --redirects: these streams are in files only, not on the console.
  StreamChoice redirects;
  // torchrun's --tee: these streams are on the console although redirected.
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
  ConsoleSpec console;
  bool operator==(const LaunchSpec&) const = default;
};

}  // namespace paceline
