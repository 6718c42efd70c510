#pragma once

#include "paceline/agent/ranks/exit_cause.h"

namespace paceline::agent {

// Names the class of the failure and its role in `cause`, which JudgeExit made of `evidence`. Only
// a process that failed has one.
void NameClass(const ExitEvidence& evidence, ExitCause* cause);

}  // namespace paceline::agent
