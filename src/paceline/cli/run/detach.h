#pragma once

// `paceline run --detach`: the launcher goes on in a process and a session of its own.

#include <optional>

#include "paceline/base/fd.h"
#include "paceline/cli/console/output.h"
#include "paceline/cli/run/prepare.h"

namespace paceline::cli {

// Forks before any thread exists. The child goes on, and writes into *serving when its master
// answers. The parent returns only then, so that the next command finds the job. Returns the
// parent's exit code, or none in the child. If there is no room for a process, nothing goes on.
std::optional<int> Detach(PreparedRun& run, Output& out, Fd* serving);

}  // namespace paceline::cli
