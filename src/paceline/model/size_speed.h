#pragma once

// What was measured of a job at one number of nodes.

#include <cstdint>

namespace paceline {

struct SizeSpeed {
  uint32_t nodes = 0;
  double step_seconds = 0;
  double error = 0;      // standard error, in seconds
  uint32_t windows = 0;  // of steps, from which it is known
  bool operator==(const SizeSpeed&) const = default;
};

}  // namespace paceline
