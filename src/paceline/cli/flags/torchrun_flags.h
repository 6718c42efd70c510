#pragma once

// The flags that `paceline run` has from torchrun 2.8 to 2.15, with torchrun's own defaults and
// environment variables. run/flags.h has paceline's own flags.

#include <map>
#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/flags/flag.h"

namespace paceline::cli {

FlagTable TorchrunFlags();

// Flags that every command has: --json, --quiet, --color …
FlagTable GlobalFlags();

// The result of torchrun's own parser for a command line: the value of every torchrun flag as text,
// from the line, else from PET_*, else the default. A missing entry is Python's None.
using TorchrunNamespace = std::map<std::string, std::string>;
Result<TorchrunNamespace> ResolveTorchrun(const ParsedLine& line, const Environment& environment);

// "PET_NPROC_PER_NODE": the variable that gives a torchrun flag's default.
std::string PetName(const Flag& flag);

// The same as JSON with argparse's types, for the comparison with torchrun's own parser.
std::string TorchrunNamespaceJson(const TorchrunNamespace& values,
                                  const std::vector<std::string>& positionals);

// Parses the arguments of `paceline run`.
Result<ParsedLine> ParseRunLine(const std::vector<std::string>& args);

}  // namespace paceline::cli
