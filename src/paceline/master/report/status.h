#pragma once

// The job's status for `paceline status` and for metrics.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/job.h"
#include "paceline/core/scale/scale_desk.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

// The host's data beside the job's.
struct HostView {
  int32_t pid = 0;
  double goodput = 0;
  double steps_per_second = 0;
  std::optional<Duration> since_step;
  bool is_still = false;  // longer than steps usually take
  Instant created_at;
  std::string journal;  // "ok", or why decisions are delayed
  RecordSeq durable;
  // Why requested nodes do not run yet, by name, in the platform's words; may be null.
  const std::map<std::string, std::string>* pending_nodes = nullptr;
  const core::ScaleDesk* scale_desk = nullptr;  // may be null
};

// Steps of the whole training that the world has not made yet; -1: not known.
int64_t StepsLeft(const core::Job& job);

// "stepping": as `paceline status` and the metrics say.
std::string_view RankStateName(RankReport::State state);

// Without nodes, ranks, the plan, the size, the loss and steps_total: the same work for a job of
// any size.
wire::JobStatus MakeJobBrief(const core::Job& job, Instant now, const HostView& host);

// Everything. The work grows with the number of ranks.
wire::JobStatus MakeJobStatus(const core::Job& job, Instant now, const HostView& host);

}  // namespace paceline::master
