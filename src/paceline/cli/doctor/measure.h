#pragma once

// `paceline doctor --measure`: measures this host, and prints one line as a check of the user does
// (docs/guides/checks.md). `paceline run --node-check` runs it on each host.
//
// Matmul and memory are the best of several short rounds, in processor time, because another
// process may take the processor for a while, and nothing makes a host faster than it is. Nodes of
// one host take turns: a lock file in /tmp is held while a node measures.

#include "paceline/cli/command.h"

namespace paceline::cli {

// Measures this host and prints the result as one JSON line. Returns the exit code.
int MeasureHost(Invocation& invocation);

}  // namespace paceline::cli
