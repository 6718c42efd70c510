#pragma once

// `paceline run --resume` without a run directory.

#include <string>

#include "paceline/cli/command.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

// The one job of `directory` that has failed, was stopped or was killed, or has lost its launcher.
// PL-E026 if there is none, PL-E023 if there are several.
Result<JobPlace> JobToResume(const Environment& environment, const std::string& directory);

// Adds --run-dir to the line, and says so, if a job is to be resumed and none is named.
Check TakeJobToResume(Invocation& invocation);

}  // namespace paceline::cli
