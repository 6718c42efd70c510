#pragma once

// The size that a job should have, from its step times at the sizes that it had.
//
// More nodes are worth it as long as each adds at least a part of what the first one does
// (`efficiency_least`). Every size that is allowed is looked at, from the smallest up: there are at
// most some thousands. Then the best size is compared with the size that the job has: the job
// changes only if the change gains kGainLeast times what it costs. The caller makes one change at a
// time.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/brain/throughput.h"

namespace paceline::brain {

// A change must gain this many times what it costs.
inline constexpr double kGainLeast = 3;
// A job that does not tell how long it runs is taken to run as long again as it has, at most this.
inline constexpr Duration kOutlookMax = Duration::Seconds(24 * 3600);

struct SizeQuestion {
  std::vector<uint32_t> sizes;  // that are allowed, rising; not empty
  uint32_t now = 0;             // the size of the world that trains
  double efficiency_least = 0.6;
  Duration outlook;      // how long the job still trains
  Duration change_cost;  // for how long a change of the size stops it
};

struct SizeChoice {
  uint32_t nodes = 0;       // the size that is chosen; `now` if nothing should change
  uint32_t best = 0;        // the best size, even if a change to it is not worth its cost
  bool explores = false;    // to measure: the curve leaves open whether it is the best one
  double step_seconds = 0;  // predicted at `nodes`
  std::string reason;       // one sentence
};

// `sizes` need not contain `now`.
SizeChoice ChooseSize(const Throughput& speed, const SizeQuestion& question);

// The sizes from min to max that are multiples of `unit`.
std::vector<uint32_t> SizesBetween(uint32_t min, uint32_t max, uint32_t unit);

}  // namespace paceline::brain
