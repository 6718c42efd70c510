#pragma once

// The flight rings of this node's ranks: their paths, and reading them.
//
//   /dev/shm/paceline-UID/JOB/NODE/rank-2.MARK.ring    of local rank 2
//
// MARK stands for the run directory. A node may have two agents on one host for a while: its next
// incarnation, in another run directory, may begin before the former one has left.
//
// They are in memory beside the arenas and not in the run directory, which may be on a network file
// system whose outage must not block a rank. A ring outlives its rank and its agent. The agent that
// ends with the job removes the rings, and the node's progress page, which is beside them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/agent/agent_files.h"
#include "paceline/model/flight_ring.h"
#include "paceline/model/ids.h"

namespace paceline::agent {

class FlightRings {
 public:
  struct Place {
    std::string root;  // ArenaRoots(job).memory
    std::string node;
    std::string mark;  // AgentFiles::Mark
  };
  // Makes the folder. If it cannot be made, that is logged and there are no rings.
  explicit FlightRings(const Place& place);
  ~FlightRings();
  FlightRings(const FlightRings&) = delete;
  FlightRings& operator=(const FlightRings&) = delete;

  // Empty if there are no rings.
  std::string PathOf(uint32_t local_rank) const;
  // None if there is no ring of that world.
  std::optional<RingPulse> Pulse(uint32_t local_rank, Generation generation) const;
  std::optional<FlightReading> Read(uint32_t local_rank, Generation generation) const;

  // The ring of the lowest rank from `rank` on, of any world.
  struct NextRing {
    FlightReading reading;
    bool has_more = false;  // there are rings of higher ranks
  };
  // Any thread. None if there is no such ring.
  std::optional<NextRing> ReadFrom(uint32_t rank) const;

  // The job has ended: remove this node's rings when this object is destroyed.
  // The node's progress page, which is beside the rings, then moves to the run directory.
  void set_is_over(const AgentFiles& files) {
    is_over_ = true;
    page_ = files.page_in_memory;
    last_page_ = files.LastPage();
  }

 private:
  std::string folder_;
  std::string suffix_;  // ".MARK.ring"
  std::string root_;
  bool is_over_ = false;
  std::string page_;  // "": not in memory
  std::string last_page_;
};

// For readers that are no agent.
struct HostRing {
  std::string node;
  FlightReading reading;
};
// The rings of all nodes of a job on this host, in the order of ranks; of each rank the newest.
// `root` is ArenaRoots(job).memory.
std::vector<HostRing> ReadHostRings(const std::string& root);

}  // namespace paceline::agent
