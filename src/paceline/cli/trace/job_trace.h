#pragma once

// The flight rings of ranks and the events of the job on one time axis, for Perfetto. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"
#include "paceline/model/flight_ring.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct RankTrace {
  std::string node;
  FlightReading ring;
  bool is_alive = true;  // else its last phase ends with its last action
};

struct TraceInput {
  std::string job_id;
  Instant now;               // when the rings were read
  int64_t monotonic_ns = 0;  // the clock of the rings then
  Instant from;              // what has ended before is left out
  std::vector<RankTrace> ranks;
  const std::vector<core::Record>* records = nullptr;  // of the whole job
  const std::vector<wire::JobEvent>* events = nullptr;
};

struct JobTrace {
  std::string bytes;
  size_t ranks = 0;
  Instant from;             // where the axis begins
  Instant complete_from;    // each ring goes back that far, or to the begin of its attempt
  int64_t short_rank = -1;  // whose ring begins then; -1: no ring is shorter than the axis
};

JobTrace MakeJobTrace(const TraceInput& input);

}  // namespace paceline::cli
