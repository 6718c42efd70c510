#pragma once

// docs/guides/cli.md, made from the tables of commands and flags.

#include <string>

namespace paceline::cli {

std::string FlagsMarkdown();

}  // namespace paceline::cli
