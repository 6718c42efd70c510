#pragma once

// The flight rings of this node's ranks: where they lie, and what is in them.
//
//   /dev/shm/paceline-UID/JOB/NODE/rank-2.ring    of local rank 2
//
// They lie in memory, beside the arenas, and not in the run directory: that may be on a network
// file system, whose outage must not block a rank. A ring outlives its rank and its agent; the
// agent that ends as the job does removes them.

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/model/flight_ring.h"
#include "paceline/model/ids.h"

namespace paceline::agent {

class FlightRings {
 public:
  // Makes the folder. `root` as ArenaRoots(job).memory. Where it cannot be made, which is logged,
  // there are no rings.
  FlightRings(const std::string& root, const std::string& node);
  ~FlightRings();
  FlightRings(const FlightRings&) = delete;
  FlightRings& operator=(const FlightRings&) = delete;

  // Empty: there are none.
  std::string PathOf(uint32_t local_rank) const;
  // Nothing when there is no ring of that world.
  std::optional<RingPulse> Pulse(uint32_t local_rank, Generation generation) const;
  std::optional<FlightReading> Read(uint32_t local_rank, Generation generation) const;

  // The job has ended: takes all rings of this node away when this object ends.
  void set_is_over() { is_over_ = true; }

 private:
  std::string folder_;
  std::string root_;
  bool is_over_ = false;
};

}  // namespace paceline::agent
