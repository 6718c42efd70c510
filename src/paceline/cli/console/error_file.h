#pragma once

// The file in which TorchX, SageMaker and Kubeflow look for the first failure of a job: the
// launcher's own TORCHELASTIC_ERROR_FILE, in the form that torch's @record writes.

#include <string>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/run/narrator.h"

namespace paceline::cli {

// What a rank wrote by @record, with its exit code added; without such a file, what is known.
std::string FormatErrorFile(const RootFailure& root, const std::string& recorded,
                            int64_t unix_seconds);

// Does nothing when the variable is not set. The file is written in place, because it may be a
// mount of its own, as /dev/termination-log is.
void WriteErrorFile(const Environment& environment, const RootFailure& root,
                    const std::string& run_dir);

}  // namespace paceline::cli
