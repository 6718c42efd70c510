#pragma once

// Shows the trace of the rank that failed, and one line for the trace of each other rank.
//
// When a rank dies, the collectives of all others fail, and each of them prints a trace. These come
// before the decision that says who died. So a trace waits for a moment until that is known. The
// trace of the failed rank is then shown whole and last. If nothing fails meanwhile, the trace was
// caught by the script, and is shown whole. Only the console folds; the logs have every line.
//
// Pure: the caller gives the time, and gets the time of the next call.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/cli/console/line_folder.h"

namespace paceline::cli {

class TraceFolder {
 public:
  // `patience`: for how long a trace waits for the failure that it may belong to.
  explicit TraceFolder(Duration patience) : patience_(patience) {}

  // The lines to show now, in order. Only lines of stderr wait, from the beginning of a trace on.
  std::vector<RankLine> Add(Instant now, RankLine line);
  // `rank` failed first in this generation: the traces of the others are folded from now on.
  std::vector<RankLine> Blame(uint64_t generation, uint32_t rank);
  // Traces that have waited long enough.
  std::vector<RankLine> TakeDue(Instant now);
  std::vector<RankLine> TakeAll();
  // Instant::Max() if no trace waits.
  Instant NextDeadline() const;

 private:
  using Source = std::pair<uint64_t, uint32_t>;  // generation, rank
  struct Trace {
    std::vector<RankLine> lines;
    Instant due;
  };

  bool IsBystander(const Source& source) const;
  // Moves the trace to `shown`: in one line if the rank is a bystander of a known failure.
  void Release(const Source& source, Trace trace, std::vector<RankLine>* shown);
  void Forget(uint64_t generation);

  Duration patience_;
  std::map<Source, Trace> waiting_;
  std::map<uint64_t, uint32_t> blamed_;  // generation to its rank that failed first
  std::set<Source> folded_;  // ranks whose traces are in one line: the rest is not shown
};

// True for "Traceback (most recent call last):", "terminate called after throwing …" and alike,
// also behind torch's "[rank1]: ".
bool BeginsTrace(std::string_view line);

// The line without torch's "[rank1]: ", which stands before each line of a trace of its processes.
std::string_view WithoutRank(std::string_view line);

}  // namespace paceline::cli
