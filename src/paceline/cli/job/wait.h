#pragma once

// What `paceline wait` waits for, and when that is reached.

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/base/instant.h"
#include "paceline/cli/console/output.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct WaitGoal {
  std::string phase;  // "" if it is a step
  int64_t step = -1;
};

// Of the value of --for. PL-E003.
Result<WaitGoal> WaitGoalOf(const std::string& text);

// The exit code of `paceline wait` for this status; none if the wait goes on.
std::optional<int> JudgeWait(const WaitGoal& goal, const wire::JobStatus& status,
                             const JobPlace& place, Output& out);

// PL-E070. `still` is what the job was doing at the last look.
Problem WaitedTooLong(const JobPlace& place, const std::string& still, Duration patience);

}  // namespace paceline::cli
