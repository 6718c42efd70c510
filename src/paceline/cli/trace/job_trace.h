#pragma once

// The flight rings of ranks and the events of the job on one time axis, for Perfetto. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ring_slice.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct RankTrace {
  std::string node;
  size_t host = 0;  // in TraceInput::hosts
  RingSlice ring;   // if its rank does not live, its last phase ends with its last action
};

struct TraceInput {
  std::string job_id;
  std::vector<HostNow> hosts;  // as their rings were read; the first one's clock is the events'
  Instant from;                // what has ended before is left out
  std::vector<RankTrace> ranks;
  const std::vector<wire::JobEvent>* events = nullptr;  // of the whole job
};

struct JobTrace {
  std::string bytes;
  size_t ranks = 0;
  Instant from;                   // where the axis begins
  Instant complete_from;          // each ring goes back that far, or to the begin of its attempt
  int64_t short_rank = -1;        // whose ring begins then; -1: no ring is shorter than the axis
  std::vector<size_t> unaligned;  // hosts whose own clock had to be believed
};

JobTrace MakeJobTrace(const TraceInput& input);

}  // namespace paceline::cli
