#pragma once

// The user's pod template of `paceline submit --template`.

#include "paceline/base/json.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {

// The labels, annotations and spec of `given`: a Pod, a PodTemplate, or null for a template with
// only the container train. Each field that ElasticJobOf reads has its type, and there is at least
// one container. PL-E003: `given` is something else, and the problem names the field.
Result<nlohmann::ordered_json> PodTemplateOf(const Submission& submission,
                                             const nlohmann::ordered_json& given);

Problem BadTemplate(const Submission& submission, const std::string& why);

inline constexpr std::string_view kTrainContainer = "train";

}  // namespace paceline::cli
