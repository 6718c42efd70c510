#pragma once

// The tasks of a job, as `paceline tasks` shows them.

#include <vector>

#include "paceline/core/job.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

// Empty: the job has a world, or its tasks are not placed yet.
std::vector<wire::TaskStatus> TasksOf(const core::Job& job, Instant now);

}  // namespace paceline::master
