#pragma once

// The master's metrics as OpenMetrics text; docs/metrics.md explains them.

#include <cstdint>
#include <string>

#include "paceline/base/instant.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

struct Counters {
  uint64_t events = 0;
  uint64_t records = 0;
  uint64_t effects = 0;
  uint64_t heartbeats = 0;
  uint64_t journal_failures = 0;
  Duration step_time;      // total time of decisions
  Duration step_time_max;  // longest single decision
  uint64_t effects_waiting = 0;
  uint64_t agents_connected = 0;
};

std::string MetricsText(const wire::JobStatus& status, const Counters& counters);

}  // namespace paceline::master
