#include "paceline/cli/run/earlier_runs.h"

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

constexpr size_t kEndMax = 200;

}  // namespace

void EarlierRuns::Add(const wire::JobEvent& event) {
  if (last_seq_ == 0) begin_ns_ = event.time_ns;
  last_seq_ = event.seq;
  // A world that runs tells where it began, not how far it came.
  if (event.kind != "world_running") step_ = std::max(step_, event.step.value_or(-1));
  if (event.kind == "world_formed") ++worlds_;
  if (event.kind == "rank_failed") ++failures_;
  if (event.kind == "job_finished") end_ = event.sentence;
  if (event.kind == "job_resumed") {
    ++runs_;
    end_.clear();
  }
}

std::string EarlierRuns::Text(const std::string& job_id) const {
  if (last_seq_ == 0) return "";
  const std::string named = Concat(" --job ", ShellWord(job_id));
  return Concat("before: ", Counted(runs_, "run"), " since ", DateAndTime(begin_ns_), " with ",
                Counted(worlds_, "world"), ", ", Counted(failures_, "failure"), " of ranks",
                step_ < 0 ? "" : Concat(", up to step ", step_), "; ",
                end_.empty() ? "the last run has not ended" : Clip(Visible(end_), kEndMax),
                ". `paceline events", named, "` and `paceline why", named, "` tell about them.");
}

}  // namespace paceline::cli
