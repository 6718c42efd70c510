#pragma once

// `paceline run --resume` goes on with the command that started the job. This note names the words
// of today's command line that it ignores.

#include <string>
#include <vector>

#include "paceline/cli/flags/flag.h"

namespace paceline::cli {

// The note; "" if each word has an effect or is also in `first`, the words of the first command.
std::string IgnoredByResume(const ParsedLine& line, const std::vector<std::string>& first);

}  // namespace paceline::cli
