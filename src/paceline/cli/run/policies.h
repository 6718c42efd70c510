// The names of a job's policies in settings, whose choices are checked before.
#pragma once

#include <string_view>

#include "paceline/model/job_spec.h"

namespace paceline::cli {

inline GrowPolicy GrowPolicyOf(std::string_view name) {
  if (name == "now") return GrowPolicy::kNow;
  return name == "never" ? GrowPolicy::kNever : GrowPolicy::kCheckpoint;
}

inline ScaleMode ScaleModeOf(std::string_view name) {
  if (name == "auto") return ScaleMode::kAuto;
  return name == "off" ? ScaleMode::kOff : ScaleMode::kAdvise;
}

}  // namespace paceline::cli
