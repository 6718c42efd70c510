#pragma once

// The measured sizes of a run as text: "2:0.0521:0.0001:4,4:0.0597:0.0002:9", which is nodes,
// seconds a step, their standard error, and windows. docs/formats/history.md.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/size_speed.h"

namespace paceline::master {

inline constexpr size_t kSizesMax = 256;  // of a run; more are not kept

std::string CurveToText(const std::vector<SizeSpeed>& curve);
// None if the text is malformed, its sizes do not rise, or a number cannot be one of a job.
std::optional<std::vector<SizeSpeed>> CurveFromText(std::string_view text);

}  // namespace paceline::master
