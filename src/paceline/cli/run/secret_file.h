#pragma once

// The files with a job's secret: the token, and the join string. Only their owner may read those
// that a user names.

#include <string>

#include "paceline/cli/console/error.h"

namespace paceline::cli {

// The secret in the file `path`; "" if the file is missing or cannot be read.
std::string ReadSecret(const std::string& path);

// The token of --token-file.
Result<std::string> ReadTokenFile(const std::string& path);

// The join string of --join, which holds the string or names a file with it.
Result<std::string> ReadJoinText(const std::string& given);

}  // namespace paceline::cli
