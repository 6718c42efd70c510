#pragma once

// The processes connected to the ledger, and answers to them.

#include <cstdint>

#include "paceline/model/lease_frame.h"

namespace paceline {

// A connected process: its link (an agent's), and its number on that link.
struct LeasePeer {
  uint64_t link = 0;
  uint32_t peer = 0;
  auto operator<=>(const LeasePeer&) const = default;
};

struct LeaseAnswer {
  LeasePeer to;
  LeaseFrame frame;
  uint64_t after = 0;  // number of durable facts, from the first event, before it is sent
};

}  // namespace paceline
