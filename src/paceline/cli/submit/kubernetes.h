#pragma once

// The resource ElasticJob (deploy/kubernetes) that stands for a submission.

#include "paceline/base/json.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {

// `pod`: the user's template (template.h), or null. Its container `train`, or its only one, gets
// the image, the resources and the environment. PL-E003: it is no template, or it has several
// containers and none of that name.
Result<nlohmann::ordered_json> ElasticJobOf(const Submission& submission,
                                            const nlohmann::ordered_json& pod);

}  // namespace paceline::cli
