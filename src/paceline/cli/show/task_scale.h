#pragma once

// `paceline tasks scale`: how many workers and table servers a job has, while it trains.

#include "paceline/cli/command.h"

namespace paceline::cli {

int ScaleTasks(Invocation& invocation);

}  // namespace paceline::cli
