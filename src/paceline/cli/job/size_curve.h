#pragma once

// The measured sizes of a job as JSON: `paceline scale --json` and `paceline history --json`.

#include <vector>

#include "paceline/base/json.h"
#include "paceline/model/size_speed.h"

namespace paceline::cli {

inline nlohmann::ordered_json CurveJson(const std::vector<SizeSpeed>& sizes) {
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  for (const SizeSpeed& speed : sizes) {
    curve.push_back({{"nodes", speed.nodes},
                     {"step_seconds", speed.step_seconds},
                     {"error_seconds", speed.error},
                     {"windows", speed.windows}});
  }
  return curve;
}

}  // namespace paceline::cli
