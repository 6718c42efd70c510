#pragma once

#include "paceline/agent/ranks/exit_cause.h"
#include "paceline/logclass/rule_set.h"

namespace paceline::agent {

// Names the class of the failure and its role in `cause`, which JudgeExit made of `evidence`. Only
// a process that failed has one. A class that is not compiled in brings its advice with it.
void NameClass(const logclass::RuleSet& rules, const ExitEvidence& evidence, ExitCause* cause);

}  // namespace paceline::agent
