#pragma once

// Reads the flight rings of all nodes of a job through its master.

#include <string>
#include <vector>

#include "paceline/cli/trace/node_rings.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

struct RingTour {
  struct Silent {
    std::string node;
    std::string why;  // "its agent has not answered for 5 s"
  };
  std::vector<NodeRings> nodes;  // those that told anything
  std::vector<Silent> silent;    // those that did not tell everything, in the order of `names`
  bool is_cut = false;           // the limit of records was reached
  // The master's host, whose clock the events have. Empty: no answer came.
  std::string boot_id;
  HostNow now;
};

// More would not fit into the memory of this process: a record takes about 200 bytes.
inline constexpr size_t kTraceRecordsMax = 2'000'000;

// Asks several nodes at a time. A node that is silent once is not asked again, and after a minute
// no node is.
RingTour TourRings(const wire::ControlClientOptions& master, const std::vector<std::string>& names,
                   Duration last);

}  // namespace paceline::cli
