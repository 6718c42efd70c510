#pragma once

// JSON values as YAML for people to read and edit. Only written, never read.

#include <string>

#include "paceline/base/json.h"

namespace paceline::cli {

std::string ToYaml(const nlohmann::ordered_json& value);

}  // namespace paceline::cli
