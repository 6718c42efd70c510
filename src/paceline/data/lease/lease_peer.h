#pragma once

// Who is connected to the ledger, and what is told to them.

#include <cstdint>

#include "paceline/model/lease_frame.h"

namespace paceline {

// Somebody who is connected: over which link (of an agent), and which of its processes.
struct LeasePeer {
  uint64_t link = 0;
  uint32_t peer = 0;
  auto operator<=>(const LeasePeer&) const = default;
};

struct LeaseAnswer {
  LeasePeer to;
  LeaseFrame frame;
  uint64_t after = 0;  // so many facts of this machine, from its first event on, durable before it
};

}  // namespace paceline
