#pragma once

// The user's own classes of failures ([log] rules), beside those that are compiled in.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/logclass/rule_set.h"

namespace paceline::agent {

// The rules of these files in their order, and behind them the ones that are compiled in: a line
// belongs to the first rule that matches. An error has a Problem: PL-E239 if a file cannot be read,
// PL-E017 if a rule in it is not usable.
absl::StatusOr<logclass::RuleSet> ReadLogRules(const std::vector<std::string>& paths);

}  // namespace paceline::agent
