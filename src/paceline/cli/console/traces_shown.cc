#include "paceline/cli/console/traces_shown.h"

#include "paceline/base/text.h"
#include "paceline/cli/console/trace_folder.h"

namespace paceline::cli {
namespace {

// Generations that are remembered: only the last failure of a job is asked for.
constexpr uint64_t kGenerationsKept = 4;

}  // namespace

void TracesShown::Add(const RankLine& line) {
  if (!line.is_stderr) return;
  const std::string_view text = WithoutRank(line.text);
  const bool begins = BeginsTrace(text);
  const auto found = newest_.find({line.generation, line.rank});
  if (found == newest_.end() && !begins) return;
  Trace& trace = newest_[{line.generation, line.rank}];
  const bool is_detail = text.empty() || text.front() == ' ';
  if (begins) {
    trace.is_open = true;
  } else if (trace.is_open && !is_detail) {
    trace = {.is_open = false, .headline = std::string(text)};
  }
  const uint64_t newest = newest_.rbegin()->first.first;
  if (newest < kGenerationsKept) return;
  newest_.erase(newest_.begin(), newest_.lower_bound({newest - kGenerationsKept, 0}));
}

bool TracesShown::Has(uint64_t generation, uint32_t rank, std::string_view traceback) const {
  const auto shown = newest_.find({generation, rank});
  if (shown == newest_.end()) return false;
  TracesShown wanted;
  for (const std::string_view line : SplitParts(traceback, "\n")) {
    wanted.Add({.node = "",
                .rank = rank,
                .is_stderr = true,
                .text = std::string(line),
                .generation = generation});
  }
  const auto found = wanted.newest_.find({generation, rank});
  return found != wanted.newest_.end() && !found->second.headline.empty() &&
         found->second.headline == shown->second.headline;
}

}  // namespace paceline::cli
