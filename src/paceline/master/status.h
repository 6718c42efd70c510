#pragma once

// The job as `paceline status` shows it, and as metrics count it.

#include <map>
#include <string>

#include "paceline/core/job.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

// What the host knows beside the job.
struct HostView {
  int32_t pid = 0;
  double goodput = 0;
  Instant created_at;
  std::string journal;  // "ok", or why decisions wait
  RecordSeq durable;
  // Why nodes that are wished for do not run yet, by name, in the platform's words; may be null.
  const std::map<std::string, std::string>* pending_nodes = nullptr;
};

wire::JobStatus MakeJobStatus(const core::Job& job, Instant now, const HostView& host);

}  // namespace paceline::master
