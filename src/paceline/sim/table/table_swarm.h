#pragma once

// `paceline sim --tables`: runs worlds of table servers, one a seed.

#include <string>
#include <vector>

namespace paceline::sim {

// Arguments and exit codes as in RunSimCommand.
int RunTableCommand(const std::vector<std::string>& args, std::string* wrong);

}  // namespace paceline::sim
