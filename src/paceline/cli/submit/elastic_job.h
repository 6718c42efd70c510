#pragma once

// What commands read of an ElasticJob, as `kubectl get --output json` prints it. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "paceline/base/json.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct ElasticJobSeen {
  std::string state;  // one word
  bool has_ended = false;
  std::optional<int> exit_code;  // none: the job failed before it had one
  std::string end_reason;        // the message of the condition that ended the job
  std::string wait_reason;       // why the job or its master does not run; "" if none is known
  int64_t master_term = 0;
  bool is_running = false;
  int64_t step = -1;
  std::string history;                             // base64; "": none is kept
  std::map<uint32_t, uint32_t> incarnations = {};  // the highest one of each node
};

// Fields of another type count as missing.
ElasticJobSeen ReadElasticJob(const nlohmann::json& job);

// The status for `paceline wait`, and for a job that has ended without a history.
wire::JobStatus PlainStatusOf(const ElasticJobSeen& job, const std::string& name);

// The place of a job that has ended, with its history if it can be read.
JobPlace KeptPlaceOf(const ElasticJobSeen& job, const std::string& on, const std::string& name);

}  // namespace paceline::cli
