#pragma once

// A starter's messages as values: framing and JSON of docs/formats/starter_socket.md. Any bytes are
// handled, so a wrong program on the socket is at worst refused.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline::agent {

inline constexpr uint32_t kStarterMessageBytesMax = 4u << 20;

struct StarterHello {
  int32_t pid = 0;
  bool is_warm = false;
  std::string why_cold;
  int64_t imports_ms = 0;
};

// A rank as the starter reports it.
struct StarterChild {
  int32_t pid = 0;
  uint64_t start_time_ticks = 0;
  uint64_t generation = 0;
  int32_t rank = -1;
  uint32_t local_rank = 0;
  bool is_running = true;
  std::optional<int32_t> wait_status;
  int32_t stopped_by = 0;  // in `children`: the signal; 0: not stopped
};

struct StarterSpawned {
  uint64_t id = 0;
  int32_t pid = 0;
  uint64_t start_time_ticks = 0;
  std::string how;
  std::string why_cold;
  int64_t took_us = 0;
};

struct StarterSpawnFailed {
  uint64_t id = 0;
  std::string why;
};

struct StarterExited {
  StarterChild child;
};

struct StarterChildren {
  std::vector<StarterChild> children;
};

struct StarterRefused {
  std::string why;
};

// From a newer starter; ignored.
struct StarterUnknown {};

using StarterMessage = std::variant<StarterHello, StarterSpawned, StarterSpawnFailed, StarterExited,
                                    StarterChildren, StarterRefused, StarterUnknown>;

// Takes the first message off `input`; none while it is incomplete. INVALID_ARGUMENT: the peer
// violates the protocol, so the rest of its bytes is meaningless.
absl::StatusOr<std::optional<StarterMessage>> TakeStarterMessage(std::string* input);

}  // namespace paceline::agent
