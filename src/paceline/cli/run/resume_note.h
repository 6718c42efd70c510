#pragma once

// `paceline run --resume` goes on with the command that started the job: with its flags, and with a
// note that names the words of today's command line that have no effect.

#include <string>
#include <vector>

#include "paceline/cli/flags/flag.h"

namespace paceline::cli {

// Returns `line` with those flags of `first`, the words of the first command, that no other file of
// the run directory keeps and that `line` does not give. A file in them is looked for from `cwd`.
ParsedLine WithFirstFlags(ParsedLine line, const std::vector<std::string>& first,
                          const std::string& cwd);

// The note; "" if each word has an effect or is also in `first`, the words of the first command.
std::string IgnoredByResume(const ParsedLine& line, const std::vector<std::string>& first);

}  // namespace paceline::cli
