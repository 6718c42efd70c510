#pragma once

// What a job's events tell of the fault of a drill, and how that differs from what is expected.
// Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/cli/drill/kinds.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

// Whom the fault struck.
struct Struck {
  int64_t time_ns = 0;           // since 1970
  std::optional<uint32_t> rank;  // none: no rank
  std::string node;              // "": no node
};

struct Seen {
  std::string found;  // as DrillKind's; "": nothing yet
  std::string rung;   // "": nothing was decided
  std::optional<uint32_t> rank;
  std::string node;
  std::optional<Duration> found_after;    // the strike
  std::optional<Duration> trained_after;  // the strike; none: the ranks do not train again yet
};

Seen SeenIn(const std::vector<wire::JobEvent>& events, const Struck& struck);

// Whether there is nothing more to wait for. What is only told needs no new world.
bool IsComplete(const DrillKind& kind, const Seen& seen);

// "" if all is as expected, otherwise what is not, as a phrase.
std::string Difference(const DrillKind& kind, const Struck& struck, const Seen& seen);

}  // namespace paceline::cli
