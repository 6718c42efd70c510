#pragma once

// `paceline drill KIND --job ID`: kills or stops one rank, agent or node of a job that runs.

#include "paceline/cli/command.h"

namespace paceline::cli {

// Returns the exit code. Without --yes it only says what the drill would cost.
int DrillLiveJob(Invocation& invocation);

}  // namespace paceline::cli
