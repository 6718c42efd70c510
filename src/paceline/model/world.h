#pragma once

// The world: who trains together under one generation, and what one node is told of it.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"

namespace paceline {

// A node's place in a world. Seat i is torch's GROUP_RANK i; ranks are numbered through the seats
// in order, so a node that keeps its seat keeps its ranks when the nodes are equal in size.
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
  StoreAddress store;          // rank 0 serves torch's TCPStore here; a new port for every world
  uint32_t restart_count = 0;  // TORCHELASTIC_RESTART_COUNT: worlds formed after the first

  uint32_t world_size() const;
  // Index into `seats`, or -1 when the node has none.
  int SeatOf(NodeId node) const;
  bool operator==(const World&) const = default;
};

// Desired state of one node, pushed by the master and told again at every registration. It is
// complete and idempotent: the agent makes it so, whatever it was doing. Higher generations win;
// within one generation kStop wins over kRun.
struct Assignment {
  enum class Kind {
    kIdle,   // hold no ranks; stay joined (spare, or waiting for a world)
    kRun,    // run exactly the ranks below
    kStop,   // end all ranks with `signal`, then SIGKILL after `grace`; stay joined
    kLeave,  // the job has ended: end all ranks as kStop does, then exit with `exit_code`
  };
  Kind kind = Kind::kIdle;
  Generation generation;  // of the world for kRun; otherwise ranks of this and lower ones must end
  uint32_t seat = 0;
  uint32_t seat_count = 0;
  uint32_t first_rank = 0;
  uint32_t rank_count = 0;
  uint32_t world_size = 0;
  uint32_t restart_count = 0;
  StoreAddress store;
  bool fresh_starter = false;  // rung "restart node's processes": do not fork from the old image
  // A node that holds the whole job may make these generations itself while the master is away
  // (0 … 0 = none). Every other agent never makes a generation.
  Generation solo_first;
  Generation solo_last;
  Duration grace;
  int signal = 0;  // what ranks get at the beginning of their grace; 0: SIGTERM
  int exit_code = 0;
  std::string reason;  // the decision's sentence
  bool operator==(const Assignment&) const = default;
};

}  // namespace paceline
