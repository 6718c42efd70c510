#pragma once

// Flags that the Kubernetes operator gives to `paceline run`, and the user's flags behind them.
// Both stand in one command line (deploy/kubernetes/operator/command/command.go).

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/console/output.h"
#include "paceline/cli/flags/flag.h"

namespace paceline::cli {

// PL-E005 if a line with --credentials gives a flag of the operator twice, or the name of a node to
// the master. Such a flag comes from spec.flags and would win over the operator's. The parser has
// resolved abbreviations and other spellings.
Check CheckPlacedFlags(const ParsedLine& line);

// Prints why `paceline run` does not start, and returns the exit code. If flags or the script of a
// job in a cluster are wrong, which ends the job, its platform is told as well: the operator shows
// the text as the condition Failed of the ElasticJob.
int RefuseStart(Output& out, const Environment& environment, const Problem& problem);

// Writes how the job ended to where Kubernetes copies it into the pod's status. So the operator
// learns that even if it was not connected. Does nothing outside Kubernetes.
void TellPlatform(int exit_code, const std::string& reason);

}  // namespace paceline::cli
