#pragma once

// The world: the nodes that train together under one generation, and each node's assignment.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"
#include "paceline/model/task.h"

namespace paceline {

// A node's place in a world. Seat i is torch's GROUP_RANK i. Ranks are numbered in the order of the
// seats, so with nodes of equal size a node that keeps its seat keeps its ranks.
struct Seat {
  NodeId node;
  uint32_t first_rank = 0;
  uint32_t rank_count = 0;
  bool operator==(const Seat&) const = default;
};

struct StoreAddress {
  std::string host;
  uint32_t port = 0;
  bool operator==(const StoreAddress&) const = default;
};

struct World {
  Generation generation;
  std::vector<Seat> seats;
  StoreAddress store;          // of torch's TCPStore on rank 0; a new port for every world
  uint32_t restart_count = 0;  // TORCHELASTIC_RESTART_COUNT: worlds formed after the first

  uint32_t world_size() const;
  // Index into `seats`; -1 if the node has none.
  int SeatOf(NodeId node) const;
  bool operator==(const World&) const = default;
};

// The desired state of one node. The master sends it, and repeats it at every registration. It is
// complete and idempotent: the agent establishes it from any state. Higher generations win; within
// one generation kStop wins over kRun.
struct Assignment {
  enum class Kind {
    kIdle,  // hold no ranks; stay joined (spare, or waiting for a world)
    kRun,   // run exactly the ranks below, or the tasks
    kStop,  // end all ranks with `signal`, then SIGKILL after `grace`; stay joined
    // The job has ended, or this node leaves it or is taken out: end all ranks as kStop does, then
    // exit with `exit_code`.
    kLeave,
  };
  Kind kind = Kind::kIdle;
  // kRun: of the world, or the newest of the node's tasks; else all ranks up to it must end.
  Generation generation;
  uint32_t seat = 0;
  uint32_t seat_count = 0;
  uint32_t first_rank = 0;
  uint32_t rank_count = 0;
  uint32_t world_size = 0;
  uint32_t restart_count = 0;
  StoreAddress store;
  std::vector<Task> tasks;     // of this node, by slot; then there is no world
  std::vector<Task> cluster;   // rank, host and port of every task of the job
  bool fresh_starter = false;  // rung "restart node's processes": use a new starter
  // A node that is the whole job may use these generations by itself while there is no master (0 …
  // 0 = none). Other agents never start a generation.
  Generation solo_first;
  Generation solo_last;
  Duration grace;
  int signal = 0;  // first signal for ranks in their grace; 0: SIGTERM
  int exit_code = 0;
  bool is_over = false;  // kLeave: the whole job ends, not only this node
  // kIdle: the checks of the user must have been run in this round or a later one; 0: as the agent
  // did by itself.
  uint32_t check_round = 0;
  // The least limit of the node's own cgroup, in bytes, where it has one; 0: as the job began.
  uint64_t memory_limit = 0;
  std::string reason;  // the decision's sentence
  bool operator==(const Assignment&) const = default;
};

// What an assignment of the kind kRun wants in one slot.
struct WantedRank {
  uint32_t slot = 0;
  Rank rank;
  Generation generation;
  bool operator==(const WantedRank&) const = default;
};
// By slot; none if the kind is not kRun.
std::vector<WantedRank> WantedRanks(const Assignment& assignment);
std::optional<WantedRank> WantedIn(const Assignment& assignment, uint32_t slot);

}  // namespace paceline
