#pragma once

// What an agent answers to `paceline trace`: one slice of one ring, and the clocks of its host. The
// master passes the bytes on unread, so they are encoded by the agent and decoded by the command.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "paceline/model/ring_slice.h"

namespace paceline::wire {

struct RingPart {
  std::string boot_id;
  HostNow now;
  bool has_ring = false;  // else the node has no ring of that rank or above
  bool has_more = false;  // it has rings above this one's rank
  RingSlice slice;
};

// A part of kRingSliceMax records with texts of a ring is smaller, and fits into an agent's
// message.
inline constexpr size_t kRingPartBytesMax = 250 << 10;

std::string EncodeRingPart(const RingPart& part);
// INVALID_ARGUMENT: no agent has encoded these bytes.
absl::StatusOr<RingPart> DecodeRingPart(std::string_view content);

}  // namespace paceline::wire
