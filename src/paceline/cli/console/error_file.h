#pragma once

// The file in which TorchX, SageMaker and Kubeflow look for the first failure of a job: the
// launcher's own TORCHELASTIC_ERROR_FILE, in the form that torch's @record writes.

#include <string>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/run/narrator.h"

namespace paceline::cli {

// The file that a rank wrote by @record, with its exit code added. Without such a file, what
// paceline knows of the failure.
std::string FormatErrorFile(const RootFailure& root, const std::string& recorded,
                            int64_t unix_seconds);

// Writes the file that TORCHELASTIC_ERROR_FILE names; does nothing if that is not set. The file is
// written in place and not replaced, because it may be a mount point, as /dev/termination-log is.
void WriteErrorFile(const Environment& environment, const RootFailure& root,
                    const std::string& run_dir);

}  // namespace paceline::cli
