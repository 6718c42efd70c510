#pragma once

// The settings `[memory]`.

#include <optional>

#include "paceline/cli/settings/settings.h"
#include "paceline/model/job_spec.h"
#include "paceline/model/problem.h"

namespace paceline::cli {

// Takes them into the spec. A problem: they contradict each other.
std::optional<Problem> TakeMemory(const SettingValues& settings, JobSpec* spec);

}  // namespace paceline::cli
