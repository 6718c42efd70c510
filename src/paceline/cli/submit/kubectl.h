#pragma once

// kubectl of the user's PATH, and what its answers mean.

#include <string>
#include <vector>

#include "paceline/cli/console/error.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {

// "kubectl" and these words, in the namespace of the place.
std::vector<std::string> Kubectl(const OnPlace& place, std::vector<std::string> words);

// What kubectl says of the fields that the API server refuses. Otherwise the last line of its
// stderr, or of its stdout if stderr is empty; earlier lines may be failed attempts.
std::string WordsOf(const ToolResult& result);

// Whether kubectl's words say that the API server cannot be reached.
bool IsUnreachable(const std::string& words);

// The right that kubectl's words say is missing: "create pods/exec"; "" if they name none.
std::string RightMissingIn(const std::string& words);

// "kubernetes/NAMESPACE/JOB".
std::string OnPlaceText(const OnPlace& place);

// PL-E046 with kubectl's words, or PL-E047: the cluster has no ElasticJobs.
Problem Refused(const std::string& what, const OnPlace& place, const ToolResult& result);

}  // namespace paceline::cli
