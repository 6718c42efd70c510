#pragma once

// The sizes that a job was to have, and what became of each. Pure.

#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct SizeDecision {
  uint64_t seq = 0;
  int64_t time_ns = 0;  // since the Unix epoch
  uint32_t nodes = 0;
  bool is_measured = false;  // false: a user typed it
  std::string reason;
  std::optional<Duration> reached_after;  // until the world of that size trained; none: it has not
  bool is_replaced = false;               // by the next decision
};

// `events`: all of the job, by rising number.
std::vector<SizeDecision> SizeDecisions(const std::vector<wire::JobEvent>& events);

// "reached after 2.1 s", "replaced before it was reached", "on its way".
std::string OutcomeOf(const SizeDecision& decision);

}  // namespace paceline::cli
